"""The model port: one question in our words, one answer in our words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol
from uuid import UUID

from shared.domain.chat import Message, Native, SystemBlock, ToolCall
from shared.domain.effect import ToolSpec
from shared.domain.money import Usage
from shared.domain.provider import ModelSpec

StopReason = Literal["end_turn", "tool_use", "max_tokens", "refusal"]
DeltaKind = Literal["text", "thinking"]
OnDelta = Callable[[DeltaKind, str], None]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call. ``call_id`` goes out as the header ``X-Lucyd-Call-Id``, ``traceparent`` as that of the same name;
    ``timeout`` bounds the whole call.

    ``max_tokens`` is for errands with an answer of known length: at most so many, and without thinking.
    """

    call_id: UUID
    system: Sequence[SystemBlock]
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    timeout: timedelta = timedelta(minutes=10)
    max_tokens: int | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the model said. ``text`` has no thinking in it; ``usage`` is what the provider billed."""

    text: str
    tool_calls: Sequence[ToolCall] = ()
    stop_reason: StopReason = "end_turn"
    usage: Usage = field(default_factory=Usage)
    thinking: str = ""
    native: Native | None = None


class Model(Protocol):
    """A model that can be asked."""

    @property
    def spec(self) -> ModelSpec:
        """What the operator configured."""
        ...

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """Ask once, without any retry; ``on_delta`` is called as pieces arrive (never, when streaming is off).

        Raises ``TryLater`` on 429, 5xx and connection faults (``after`` from Retry-After), ``ModelTimeout`` when the
        whole call takes longer than ``request.timeout``, ``ModelRejected`` on anything else the provider refuses.
        """
        ...
