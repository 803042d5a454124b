"""The one end of a run, whoever brings it about."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.adapters.inmemory.rows import DeliveryMade, RunRow, WebhookMade
from shared.adapters.inmemory.tables import Tables, as_json
from shared.domain.chat import AssistantMessage, ToolResultsMessage
from shared.domain.outgoing_file import OutgoingFile
from shared.domain.run import RunState
from shared.messages.run_events import terminal_id

NOT_CARRIED = frozenset({"http", "cli", "system"})
"""Channels whose people fetch what is said to them."""


def is_carried(channel: str) -> bool:
    """Whether somebody carries this channel's messages out."""
    return channel not in NOT_CARRIED


def conclude(
    tables: Tables,
    run: RunRow,
    state: RunState,
    outcome: Mapping[str, Any],
    *,
    terminal: str,
    parts: Sequence[str] | None = None,
    files: Sequence[OutgoingFile] = (),
) -> dict[str, Any]:
    """End a run and make all that goes out because of it; the outcome as it is stored.

    What is still merely intended is in doubt from here on, and that is said. ``parts`` are the texts for the channel,
    ``files`` go behind them; ``None``: the reason, when there is one to tell.
    """
    stored: dict[str, Any] = as_json(outcome)
    doubts = _doubt(tables, run)
    if doubts:
        stored["notices"] = [*stored.get("notices", ()), *doubts]
    sent = tables.reply_files.get(run.id, []) if state != "cancelled" else []
    if sent:
        stored["attachments"] = [
            {"filename": file["name"], "content_type": file["media_type"], "size": file["size"]} for file in sent
        ]
    run.state, run.outcome, run.terminal, run.finished_at = state, stored, terminal, tables.clock.now()
    run.wait_reason = run.wake_at = None
    for asked in tables.pending(run.id):
        asked.state = "void"
    ended = [run, *_end_followers(tables, run)]
    if run.kind not in {"message", "outbound"}:
        return stored
    if parts is None:
        tells = run.kind == "message" and state in {"failed", "dead"} and "error" in stored
        parts = [stored["error"]] if tells else []
    brought = [{"text": "", "file": file} for file in sent]
    add_parts(tables, run, "reply", [*parts, *(file.body() for file in files), *doubts, *brought])
    for row in ended:
        if row.webhook is not None:
            tables.webhooks.append(WebhookMade(row.id, row.webhook, _webhook_body(run, row)))
    return stored


def end_from_outside(tables: Tables, run: RunRow, state: RunState, reason: str) -> dict[str, Any]:
    """End a run that is in nobody's hand any more: history is closed, the end is one sentence."""
    _close_history(tables, run, reason)
    outcome: dict[str, Any] = {
        "state": state,
        "run_id": str(run.id),
        "session_id": str(run.session) if run.session else None,
        "conversation": run.conversation,
        "sender": run.sender,
        "source": run.source,
        "error": reason,
        "reply": "",
    }
    if state == "dead":
        outcome |= {"worker": str(run.suspected_by) if run.suspected_by else None, "step": run.step}
    return conclude(tables, run, state, outcome, terminal=terminal_id(run.epoch))


def add_parts(tables: Tables, run: RunRow, kind: Any, parts: Sequence[str | Mapping[str, Any]]) -> None:
    """Put texts and files in the line of what goes out, behind those that the run has said before."""
    channel = tables.conversations[run.conversation].channel
    if not is_carried(channel):
        return
    before = sum(row.run == run.id for row in tables.deliveries)
    for number, part in enumerate(parts, before + 1):
        body = {"text": part} if isinstance(part, str) else as_json(part)
        tables.deliveries.append(DeliveryMade(run.id, run.conversation, channel, run.ordinal, number, kind, body))


def _doubt(tables: Tables, run: RunRow) -> list[str]:
    doubts = []
    for effect in sorted(tables.effects.values(), key=lambda effect: (effect.step, effect.call_index)):
        if effect.run == run.id and effect.state == "intended" and effect.effect == "local":
            del tables.effects[effect.run, effect.step, effect.call_index]  # without a result it has not happened
        elif effect.run == run.id and effect.state == "intended":
            effect.state = "in_doubt"
            doubts.append(
                f"I was interrupted while using '{effect.tool}': it may or may not have happened. "
                "I did not repeat it by myself."
            )
    return doubts


def _end_followers(tables: Tables, leader: RunRow) -> list[RunRow]:
    followers = [row for row in tables.runs.values() if row.merged_into == leader.id and row.finished_at is None]
    for row in followers:
        row.outcome = {**(leader.outcome or {}), "run_id": str(row.id), "merged_into": str(leader.id)}
        row.terminal, row.finished_at = leader.terminal, leader.finished_at
    return followers


def _webhook_body(leader: RunRow, run: RunRow) -> Mapping[str, Any]:
    outcome = leader.outcome or {}
    tokens = outcome.get("tokens", {})
    body = {
        "reply": outcome.get("reply", ""),
        "session_id": str(leader.session) if leader.session else None,
        "sender": run.sender,
        "source": run.source,
        "silent": outcome.get("silent", False),
        "tokens": {"input": tokens.get("input", 0), "output": tokens.get("output", 0)},
        "run_id": str(run.id),
        "state": leader.state,
        "error": outcome.get("error"),
        "notices": outcome.get("notices") or None,
        "attachments": outcome.get("attachments"),
        "notify_meta": run.message.get("notify_meta"),
    }
    told: Mapping[str, Any] = as_json({name: value for name, value in body.items() if value is not None})
    return told


def _close_history(tables: Tables, run: RunRow, reason: str) -> None:
    """Leave no call without a result and no question hanging."""
    if run.session is None:
        return
    if run.stage != "tools" and run.step == 0:
        tables.drop(run.id)
        return
    if run.stage == "tools":
        said = [row.body for row in tables.messages if row.run == run.id]
        tables.append(run.session, run.id, _unknown_results(said[-1], reason))
    stopped: AssistantMessage = {"role": "assistant", "text": f"[Stopped: {reason}]"}
    tables.append(run.session, run.id, stopped)


def _unknown_results(answer: Any, reason: str) -> ToolResultsMessage:
    sentence = f"Error: the run ended before a result was known ({reason})."
    return {
        "role": "tool_results",
        "results": [
            {"tool_use_id": call["id"], "content": sentence, "is_error": True} for call in answer["tool_calls"]
        ],
    }
