"""Stored rows as a model reads them: the summary first, no call without a result, times and warnings in words."""

from collections.abc import Sequence
from datetime import datetime

from shared.domain.chat import AssistantMessage, Message, ToolResultsMessage, UserMessage

SUMMARY_HEAD = "[Previous conversation summary]"
SUMMARY_TAIL = "[The conversation goes on below.]"
NO_RESULT = "Error: the run was interrupted before a result was known."

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def stamp(moment: datetime) -> str:
    """``[Thu, 21. May 2026 - 21:33 UTC]``, the same on every machine and in every locale."""
    day, month = DAYS[moment.weekday()], MONTHS[moment.month - 1]
    zone = moment.tzname() or "UTC"
    return f"[{day}, {moment.day}. {month} {moment.year} - {moment.hour:02}:{moment.minute:02} {zone}]"


def summary_message(summary: str) -> UserMessage:
    """What a compaction left, as the first message."""
    return {"role": "user", "content": f"{SUMMARY_HEAD}\n{summary}\n{SUMMARY_TAIL}"}


def readable(message: Message) -> Message:
    """A stored message as a model reads it; always the same text for the same row, so that prompt caches hold."""
    if message["role"] != "user" or "received_at" not in message:
        return message
    head = stamp(datetime.fromisoformat(message["received_at"]))
    if warning := message.get("warning"):
        head = f"[system: {warning}]\n\n{head}"
    content = message["content"]
    if isinstance(content, str):
        return {"role": "user", "content": f"{head}\n{content}"}
    return {"role": "user", "content": [{"type": "text", "text": head}, *content]}


def append_readable(history: list[Message], message: Message) -> None:
    """Add a row to a readable history, closing calls that an interrupted run left open.

    Results that stand without their call are left out: providers refuse both, and with them all that follows.
    """
    last = history[-1] if history else None
    is_open = last is not None and last["role"] == "assistant" and bool(last.get("tool_calls"))
    if message["role"] == "tool_results":
        if not is_open:
            return
    elif is_open and last is not None and last["role"] == "assistant":
        history.append(unanswered_results(last, NO_RESULT))
    history.append(readable(message))


def unanswered_results(answer: AssistantMessage, reason: str) -> ToolResultsMessage:
    """Results for calls that never ran or whose end is unknown."""
    return {
        "role": "tool_results",
        "results": [
            {"tool_use_id": call["id"], "content": reason, "is_error": True} for call in answer.get("tool_calls", [])
        ],
    }


def closing_rows(said: Sequence[Message], reason: str) -> list[Message]:
    """What ends the history of a run that stops early: no call without a result, no question hanging.

    Empty when the run has said nothing yet; then its user row is dropped instead.
    """
    if not said:
        return []
    rows: list[Message] = []
    last = said[-1]
    if last["role"] == "assistant" and last.get("tool_calls"):
        rows.append(unanswered_results(last, f"Error: the run ended before a result was known ({reason})."))
    rows.append({"role": "assistant", "text": f"[Stopped: {reason}]"})
    return rows


def readable_history(summary: str | None, rows: Sequence[Message]) -> list[Message]:
    """The whole history of a session as a model reads it."""
    history: list[Message] = [summary_message(summary)] if summary else []
    for row in rows:
        append_readable(history, row)
    return history
