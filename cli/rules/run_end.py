"""How a run ended, whoever tells it."""

from collections.abc import Mapping
from typing import Any

from cli.rules.clean_text import one_line
from shared.messages.run_events import RunEvent


def end_of(event: RunEvent) -> str:
    """The end as a person sees it: a message that was answered together with another has ended as that one did."""
    if event.type != "merged":
        return event.type
    state = str(event.data.get("state") or "done")
    return "failed" if state == "dead" else state


def has_ended(run: Mapping[str, Any]) -> bool:
    """Whether the end of a run is stored; one that is part of another ends with it."""
    return run.get("finished_at") is not None


def had_ended_sentence(run: Mapping[str, Any]) -> str:
    """There was nothing to cancel."""
    return f"The run {_id(run)} had ended before: {_state(run)}."


def cancelled_sentence(run: Mapping[str, Any]) -> str:
    """What came of a cancel, once the end is stored."""
    if _state(run) != "cancelled":
        return f"The run {_id(run)} ended before it could be cancelled: {_state(run)}."
    leader = _outcome(run).get("merged_into")
    if leader:
        return f"The run {one_line(leader)} was cancelled, and {_id(run)}, which was a part of it."
    return f"The run {_id(run)} was cancelled."


def _id(run: Mapping[str, Any]) -> str:
    return one_line(run.get("run_id", "?"))


def _state(run: Mapping[str, Any]) -> str:
    return one_line(_outcome(run).get("state") or run.get("state") or "?", 12)


def _outcome(run: Mapping[str, Any]) -> Mapping[str, Any]:
    outcome = run.get("outcome")
    return outcome if isinstance(outcome, dict) else {}
