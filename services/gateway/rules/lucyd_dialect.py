"""Reply shapes of the HTTP API: the original's names, and what this Lucyd knows beyond them."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from shared.domain.attachment import line_of
from shared.domain.chat import ContentBlock
from shared.domain.child_run import parent_in
from shared.domain.money import Usage
from shared.domain.run import Question
from shared.domain.trace_context import trace_id
from shared.ports.dead_letters import DeadLetter
from shared.ports.history import HistoryRow, ModelCost, SessionSummary, StoredRun
from shared.ports.records import Bill, Turn, Turns

TOOL_RESULT_CHARS = 500
MOMENTS = ("message_started_at", "turn_started_at")
NOBODY_KNOWN = "user"
"""Who wrote a message whose run is kept no more."""


def told(run: UUID, outcome: Mapping[str, Any] | Question | None) -> tuple[dict[str, Any], int]:
    """Body and status of POST /api/v1/chat; ``None``: the time is over, and the run goes on."""
    if outcome is None:
        return {"error": "processing timeout", "run_id": str(run)}, 408
    if isinstance(outcome, Question):
        return _question_reply(outcome), 202
    return _chat_reply(outcome), 200


def _chat_reply(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Body of POST /api/v1/chat for a run that has ended; a failed run has ``error`` instead of a reply."""
    files = reply_files(outcome)
    if outcome.get("state") != "done":
        return {
            **({"attachments": files} if files else {}),
            "error": outcome.get("error") or "the run was cancelled",
            "reply": "",
            "session_id": outcome.get("session_id"),
            "run_id": outcome.get("run_id"),
            "notices": outcome.get("notices") or [],
        }
    names = ("reply", "session_id", "run_id", "tokens", "cost", "currency", "model", "turns", "notices")
    reply: dict[str, Any] = {name: outcome[name] for name in names if name in outcome}
    reply["attachments"] = files
    if outcome.get("silent"):
        reply["silent"] = True
    return reply


def reply_files(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Files that came with a reply: the original's names for them, and where their bytes are fetched."""
    run = outcome.get("run_id")
    return [
        {**file, "url": f"/api/v1/runs/{run}/attachments/{number}"}
        for number, file in enumerate(outcome.get("attachments") or (), start=1)
    ]


def _question_reply(question: Question) -> dict[str, Any]:
    """Body of POST /api/v1/chat for a run that waits: the next message of its conversation is the answer."""
    return {
        "state": "waiting",
        "reply": question.text,
        "run_id": str(question.run),
        "session_id": str(question.session),
        "approvals": [{"approval_id": str(approval), "tool": tool} for approval, tool in question.approvals],
    }


def run_body(run: StoredRun) -> dict[str, Any]:
    """Body of GET /api/v1/runs/{id}."""
    return {
        "run_id": str(run.id),
        "state": run.state,
        "kind": run.kind,
        "conversation": run.conversation,
        "parent_run_id": None if (parent := parent_in(run.conversation)) is None else str(parent),
        "session_id": str(run.session) if run.session else None,
        "ordinal": run.ordinal,
        "attempts": run.attempts,
        "accepted_at": run.accepted_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "outcome": run.outcome,
    }


def dead_body(letter: DeadLetter) -> dict[str, Any]:
    """One entry of GET /api/v1/dead; never what was said."""
    return {
        "id": str(letter.id),
        "kind": letter.kind,
        "state": letter.state,
        "reason": letter.reason,
        "conversation": letter.conversation,
        "about": letter.about,
        "run_id": str(letter.run) if letter.run else None,
        "at": letter.at.isoformat(),
        "attempts": letter.attempts,
        "last_worker": str(letter.worker) if letter.worker else None,
        "last_step": letter.step,
        "retried_as": str(letter.retried_as) if letter.retried_as else None,
    }


def session_body(session: SessionSummary, *, context_limit: int) -> dict[str, Any]:
    """One entry of GET /api/v1/sessions, with the names of both generations."""
    share = round(100 * session.context_tokens / context_limit) if context_limit else 0
    cost = float(round(session.cost, 6))
    return {
        "session_id": str(session.id),
        "contact": session.contact,
        "conversation": session.conversation,
        "created_at": session.created_at.timestamp(),
        "updated_at": session.updated_at.timestamp(),
        "model": session.model,
        "message_count": session.message_count,
        "compaction_count": session.compaction_count,
        "context_tokens": session.context_tokens,
        "context_pct": share,
        "cost_usd": cost,
        "cost": cost,
        "currency": session.currency,
        "event_count": session.row_count,
        "log_files": 0,
        "log_bytes": 0,
    }


def cost_body(period: str, costs: Sequence[ModelCost]) -> dict[str, Any]:
    """Body of GET /api/v1/cost; figures are exact, sums are made before they become JSON numbers."""
    return {
        "period": period,
        "total_cost": float(sum((cost.cost for cost in costs), Decimal(0))),
        "models": [
            {
                "model": cost.model,
                **_tokens(cost.usage),
                "cost_usd": float(cost.cost),
                "cost": float(cost.cost),
                "currency": cost.currency,
                "calls": cost.calls,
            }
            for cost in costs
        ],
    }


def bill_body(period: str, bill: Bill, *, limit: int) -> dict[str, Any]:
    """Body of GET /api/v1/cost for a month: the same, and its single calls."""
    currencies = sorted({cost.currency for cost in bill.models})
    return {
        **cost_body(period, bill.models),
        "billing_period": period,
        "currency": ", ".join(currencies),
        "records": [{**call, "cost": float(call["cost"])} for call in bill.calls],
        "truncated": len(bill.calls) == limit,
    }


def history_events(rows: Sequence[HistoryRow], *, full: bool) -> list[dict[str, Any]]:
    """Events of GET /api/v1/sessions/{id}/history: what was said, and with ``full`` what tools answered."""
    events: list[dict[str, Any]] = []
    for row in rows:
        at = {"timestamp": row.at.timestamp(), "run_id": str(row.run)}
        body = row.body
        match body["role"]:
            case "user":
                said = _words(body["content"])
                by = {"from": row.sender or NOBODY_KNOWN, "source": row.source or NOBODY_KNOWN}
                events.append({"type": "message", "role": "user", "content": said, **by, **at})
            case "assistant":
                event = {"type": "message", "role": "assistant", "text": body["text"], "usage": _usage(row.usage), **at}
                if full:
                    event["tool_calls"] = body.get("tool_calls", [])
                    event["thinking"] = body.get("thinking", "")
                events.append(event)
            case "tool_results" if full:
                events.extend(
                    {
                        "type": "tool_result",
                        "tool_use_id": result["tool_use_id"],
                        "content": result["content"][:TOOL_RESULT_CHARS],
                        **at,
                    }
                    for result in body["results"]
                )
    return events


def _usage(usage: Usage | None) -> dict[str, int] | None:
    return None if usage is None else {**_tokens(usage), "context_tokens": usage.context}


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
    }


def _words(content: str | Sequence[ContentBlock]) -> str:
    """What a person said, with a line for each attachment: never its bytes, and not what stands in a document."""
    if isinstance(content, str):
        return content
    return "\n".join(_line(block) for block in content)


def _line(block: ContentBlock) -> str:
    match block["type"]:
        case "blob":
            return line_of(block)
        case "image":
            return "[image]"
    return block["text"]


def newest_session(sessions: Sequence[Mapping[str, str]]) -> Mapping[str, str] | None:
    """The session that moved last."""
    return max(sessions, key=lambda session: float(session.get("updated_at", "0")), default=None)


def monitor_body(
    sessions: Sequence[Mapping[str, str]], processes: Sequence[Mapping[str, str]], turns: Turns | None
) -> dict[str, Any]:
    """Body of GET /api/v1/monitor: the session that moved last in the original's fields, and all there is beside it.

    ``turns`` are those of its run; ``None``: nobody could tell.
    """
    newest = newest_session(sessions)
    if newest is None and not processes:
        return {"state": "unknown"}
    head: dict[str, Any] = {"state": "idle"}
    if newest is not None:
        head = {**newest, "turn": int(newest.get("turn", "0")), "updated_at": float(newest.get("updated_at", "0"))}
        head |= {name: float(newest[name]) for name in MOMENTS if name in newest}
        head["tools_in_flight"] = [name for name in newest.get("tools_in_flight", "").split(",") if name]
    if turns is not None:
        head["trace_id"] = trace_id(turns.traceparent) if turns.traceparent else None
        head["turns"] = [_turn(turn) for turn in turns.turns]
    return {**head, "sessions": list(sessions), "services": list(processes)}


def _turn(turn: Turn) -> dict[str, Any]:
    stop = "tool_use" if turn.tools else "end_turn"
    return {
        "duration_ms": turn.took_ms,
        **_tokens(turn.usage),
        "stop_reason": None if turn.tools is None else stop,
        "tools": turn.tools or [],
    }
