"""The one thing both vendors' readers promise, so that one piece of code can carry every answer home."""

from typing import Any, Protocol

from shared.adapters.models.think_spans import Delta
from shared.ports.model import ModelAnswer, ModelRequest


class WireAnswer(Protocol):
    """Takes an answer from the wire, whole or in events. Pure; an error inside is raised as ``ErrorInAnswer``."""

    @property
    def finished(self) -> bool:
        """The end marker was seen: nothing that follows matters."""
        ...

    @property
    def complete(self) -> bool:
        """The answer may end here without being broken."""
        ...

    def event(self, data: bytes) -> list[Delta]:
        """Take the data of one event. Raises ``ErrorInAnswer``, and ``TryLater`` for what can't be read."""
        ...

    def whole(self, body: dict[str, Any]) -> list[Delta]:
        """Take the answer in one piece. Raises like ``event``."""
        ...

    def answer(self, request: ModelRequest) -> ModelAnswer:
        """What was said; the usage is estimated when the provider gave none."""
        ...
