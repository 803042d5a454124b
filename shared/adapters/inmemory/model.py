"""A model that says what a script holds."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shared.domain.provider import ModelSpec
from shared.ports.model import ModelAnswer, ModelRequest, OnDelta

OFFLINE = ModelSpec(name="primary", provider="offline", model="scripted")


class ScriptedModel:
    """``Model`` of the ports. Each call takes the next line: an answer, a fault to raise, an event to wait for first.

    A text is told in ``pieces`` parts of about the same length. ``requests`` are what was asked, with the messages as
    they were at that time. A call beyond the script is a fault of the test: ``AssertionError``.
    """

    def __init__(
        self,
        script: Iterable[ModelAnswer | BaseException | asyncio.Event],
        *,
        spec: ModelSpec = OFFLINE,
        pieces: int = 1,
    ) -> None:
        self._script = list(script)
        self._spec = spec
        self._pieces = pieces
        self.requests: list[ModelRequest] = []

    @property
    def spec(self) -> ModelSpec:
        """See ``Model.spec``."""
        return self._spec

    def then(self, *lines: ModelAnswer | BaseException | asyncio.Event) -> None:
        """Add to the script."""
        self._script.extend(lines)

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """See ``Model.answer``."""
        self.requests.append(replace(request, messages=list(request.messages)))
        while True:
            if not self._script:
                raise AssertionError("the model was asked more often than the script says")
            match self._script.pop(0):
                case asyncio.Event() as event:
                    await event.wait()
                case BaseException() as fault:
                    raise fault
                case ModelAnswer() as answer:
                    for piece in _pieces(answer.text, self._pieces):
                        on_delta("text", piece)
                    return answer


def _pieces(text: str, count: int) -> Sequence[str]:
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]
