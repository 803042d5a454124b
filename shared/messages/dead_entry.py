"""An entry of ``lucyd:dead``: a run that was given up, for whoever watches."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID


def dead_entry(run: UUID, conversation: str, outcome: Mapping[str, Any]) -> dict[str, str] | None:
    """``run``, ``conversation``, ``reason``, and ``worker`` and ``step`` where the outcome knows them.

    ``None`` for a run that ended otherwise, or that stood for another one.
    """
    if outcome.get("state") != "dead" or "merged_into" in outcome:
        return None
    known = {"reason": outcome.get("error"), "worker": outcome.get("worker"), "step": outcome.get("step")}
    told = {name: str(value) for name, value in known.items() if value is not None}
    return {"run": str(run), "conversation": conversation, **told}
