"""What the agent needs of the world and nobody else does: tools, and figures about the session in hand."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from shared.domain import effect
from shared.domain.attachment import Attachment
from shared.domain.chat import ToolCall, ToolResult
from shared.domain.effect import ToolSpec
from shared.ports.history import SessionStatus

Proof = effect.Proof
Verdict = effect.Verdict


async def _at_once() -> None:
    return


async def _nothing_kept(name: str, arguments: Mapping[str, Any]) -> str:
    raise ToolFailed("there is no run here that this could be stored with")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Who uses a tool and in which run. ``key`` is the same for every try of this call: ``<run>:<step>:<index>``.

    ``ready`` is awaited right before the tool runs, after any waiting for its turn: nothing is done on an old beat.
    ``act`` is for tools of class ``local``: it does what its name and arguments say in the transaction that stores the
    result, and gives the text the model shall read. It raises ``ToolFailed`` where that was refused, ``ResultLater``
    where the act was done and its result is yet to come, ``LostClaim``, and ``TryLater``. ``scope`` are the tools that
    this run may use, all of them where it is ``None``. ``effect`` is the class that an heir will take the call for: a
    tool that is of another by now is not run, unless it is ``None``. ``principal`` and ``sender`` say for whom it runs.
    ``works_in`` is the conversation that it works for in the end: a sub-agent's root runs there. Empty: its own.
    ``contact`` is what people call whoever it answers.
    """

    run_id: UUID
    session_id: UUID
    conversation: str
    key: str
    ready: Callable[[], Awaitable[None]] = _at_once
    act: Callable[[str, Mapping[str, Any]], Awaitable[str]] = _nothing_kept
    scope: Collection[str] | None = None
    effect: str | None = None
    principal: str = ""
    sender: str = ""
    works_in: str = ""
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Pictured:
    """A result with images, of types that models can see; the text tells of them in words."""

    text: str
    images: Sequence[Attachment]


class Tool(Protocol):
    """One tool. Adding one is one file in ``edge/tools`` and one line in ``wiring``."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, parameters and effect class."""
        ...

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str | Pictured:
        """Do it. Raises ``ToolFailed`` with the sentence the model shall read; anything else is a fault of the tool."""
        ...


class ProvingTool(Tool, Protocol):
    """A tool that changes the world and can tell afterwards whether it did."""

    async def prove(self, arguments: Mapping[str, Any], use: ToolUse) -> Proof | None:
        """What to store before acting; ``None`` when nothing can be proven (the call will fail by itself)."""
        ...

    async def verify(self, proof: Proof) -> Verdict:
        """Whether the act that ``proof`` was stored for has happened."""
        ...


class ToolSource(Protocol):
    """Tools that come and go while the worker runs: plugins, and servers that offer some."""

    def tools(self) -> Sequence[Tool]:
        """Those that are there now, in a stable order. Where a name is taken already, the earlier tool has it."""
        ...


class ToolFailed(Exception):
    """A tool's own refusal; the model reads ``Error: <message>``."""


class ResultLater(Exception):
    """The call was carried out, and a run of its own will answer it; the run that asked waits for that."""


class Toolbox(Protocol):
    """All tools of a worker behind one door."""

    def specs(self) -> Sequence[ToolSpec]:
        """What is offered to the model, in a stable order."""
        ...

    def spec(self, name: str) -> ToolSpec | None:
        """The tool of that name, if it is enabled."""
        ...

    async def prove(self, call: ToolCall, use: ToolUse) -> Proof | None:
        """What to store before the call runs."""
        ...

    async def verify(self, call: ToolCall, proof: Proof) -> Verdict:
        """Whether an interrupted call has happened."""
        ...

    async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
        """Run one call. Never raises for what a tool or its arguments did: that becomes a result with ``is_error``.

        Raises ``ResultLater`` when there is none yet.
        """
        ...


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """An attachment of a message, by the id of its blob."""

    id: str
    content_type: str
    filename: str
    data: bytes = field(repr=False)
    is_voice: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """The text as it is now, and the ids of the attachments that went into it."""

    text: str
    taken: Sequence[str] = ()


class NotPrepared(Exception):
    """What came with a message had to be read and could not be; the sentence is for its person."""


class Preprocessors(Protocol):
    """Read what comes with messages, before a model does."""

    def wants(self, content_type: str) -> bool:
        """Whether such an attachment is worth loading."""
        ...

    async def prepare(self, text: str, files: Sequence[IncomingFile]) -> Prepared:
        """Read them. Takes a bounded time; raises ``NotPrepared``."""
        ...


class Processors(Protocol):
    """Those that this process may use."""

    @property
    def count(self) -> int:
        """How many."""
        ...

    @property
    def name(self) -> str:
        """Which of the machine's."""
        ...

    def busy(self) -> float | None:
        """The share of their time that was spent since the last call, from 0 to 1; ``None`` where nobody can tell."""
        ...


class SessionFigures(Protocol):
    """Reads what ``session_status`` tells."""

    async def status(self, session_id: UUID) -> SessionStatus:
        """The figures of one session as last stored."""
        ...
