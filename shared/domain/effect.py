"""Tools as the model sees them, and what may be done with an interrupted call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

EffectClass = Literal["read", "local", "idempotent", "once"]
"""``read``: run again. ``local``: only Postgres rows, in the step's transaction. ``idempotent``: run again with the
same key. ``once``: a crash between intent and result leaves it in doubt, and it is never silently repeated."""


Proof = Mapping[str, Any]
"""What a tool writes down before it acts (JSON), from which an heir can tell whether it acted."""

Verdict = Literal["done", "not_done", "unknown"]
"""Whether an interrupted act has happened, as its proof shows."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is offered to a model; ``input_schema`` is JSON Schema.

    ``opens``: a call may be answered by a run of its own, which the asking run waits for.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    effect: EffectClass = "once"
    opens: bool = False
