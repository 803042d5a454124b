"""What must happen next in a run. The caller makes it happen."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal
from uuid import UUID

from shared.domain.chat import AssistantMessage, Message
from shared.domain.run import StoredMessage

StopReason = Literal["answered", "cost_limit", "turn_limit"]


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model; this will be turn ``turn`` (the first is 1)."""

    turn: int


@dataclass(frozen=True, slots=True)
class UseTools:
    """Run what the last answer asked for."""

    answer: AssistantMessage


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing more to do. ``unanswered`` holds calls that will not run, so that history keeps none without a result."""

    reason: StopReason
    unanswered: AssistantMessage | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one message may go. ``max_cost`` 0 means without limit."""

    max_turns: int
    max_cost: Decimal


def next_step(said: Sequence[Message], *, spent: Decimal, limits: Limits) -> AskModel | UseTools | Finish:
    """Decide from what this run has stored so far (its own messages, oldest first) and paid."""
    turns = sum(1 for message in said if message["role"] == "assistant")
    last = said[-1] if said else None
    # Money is asked first: a tool call proposed by the last answer must not outlive it.
    broke = limits.max_cost > 0 and spent >= limits.max_cost
    if last is not None and last["role"] == "assistant":
        if not last.get("tool_calls"):
            return Finish("answered")
        if broke:
            return Finish("cost_limit", unanswered=last)
        if turns >= limits.max_turns:
            return Finish("turn_limit", unanswered=last)
        return UseTools(last)
    if broke and turns:
        return Finish("cost_limit")
    if turns >= limits.max_turns:
        return Finish("turn_limit")
    return AskModel(turns + 1)


def own_messages(history: Sequence[StoredMessage], run: UUID) -> list[Message]:
    """What this run has stored after its user row."""
    return [stored.body for stored in history if stored.run == run and stored.body["role"] != "user"]


def turns_left_note(*, turns_made: int, max_turns: int) -> str | None:
    """The warning that goes with tool results when exactly two turns are left."""
    if max_turns - turns_made != 2:
        return None
    return "[system: Two turns are left for this message. Use the next one to finish, then answer.]"


CUT_NOTE = "[system: Your last answer was cut at its token limit. Wrap up in fewer words.]"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the person gets: ``text``, and sentences about how it ended."""

    text: str
    notices: tuple[str, ...] = ()


EMPTY_NOTICE = "The model returned an empty answer."
COST_NOTICE = "Stopped: this message reached its cost limit."


def stop_notice(stop_reason: str) -> str | None:
    """Said to the person when the provider ended the last answer early."""
    match stop_reason:
        case "max_tokens":
            return "The answer was cut at the model's token limit."
        case "refusal":
            return "The model refused to answer this."
        case _:
            return None


def turn_notice(max_turns: int) -> str:
    """Said to the person when the turns are used up."""
    return f"Stopped: this message reached its limit of {max_turns} turns."


def compose_reply(
    said: Sequence[Message], reason: StopReason, *, max_turns: int, why_empty: Sequence[str] = ()
) -> Reply:
    """The reply out of a run's own messages. Text beside tool calls counts only where no better text came after it.

    ``why_empty`` stands in for an answer without text, where something is known about it.
    """
    texts = [message["text"].strip() for message in said if message["role"] == "assistant"]
    final = texts[-1] if texts else ""
    fallback = next((text for text in reversed(texts) if text), "")
    match reason:
        case "answered":
            text = final or fallback
            if text or why_empty:
                return Reply(text or why_empty[-1])
            return Reply(EMPTY_NOTICE, (EMPTY_NOTICE,))
        case "cost_limit":
            return Reply(fallback or COST_NOTICE, (COST_NOTICE,))
        case "turn_limit":
            notice = turn_notice(max_turns)
            return Reply(f"{fallback}\n\n{notice}" if fallback else notice, (notice,))
