"""Our values as the documents that the functions of the migrations read."""

from typing import Any

from shared.domain.run import UNDERSTANDS, Ending, Settlement, Waiting, Write


def settlement_document(settlement: Settlement) -> dict[str, Any]:
    """A row of ``costs``."""
    usage = settlement.usage
    rate_input, rate_output, rate_cache_read, rate_cache_write = settlement.rates
    return {
        "call_id": settlement.call_id,
        "run": settlement.run,
        "conversation": settlement.conversation,
        "session": settlement.session,
        "principal": settlement.principal,
        "call_type": settlement.call_type,
        "provider": settlement.provider,
        "model": settlement.model,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "rate_input": rate_input,
        "rate_output": rate_output,
        "rate_cache_read": rate_cache_read,
        "rate_cache_write": rate_cache_write,
        "cost": settlement.cost,
        "currency": settlement.currency,
        "estimated": settlement.estimated,
        "latency_ms": round(settlement.latency.total_seconds() * 1000),
    }


def write_document(write: Write) -> dict[str, Any]:
    """The fourth argument of ``lucyd_store_2``; what is absent is left out, for ``?`` asks by presence."""
    document: dict[str, Any] = {"id": write.id, "run": write.run, **_round_document(write)}
    if write.settle is not None:
        document["settle"] = settlement_document(write.settle)
    if write.messages:
        document["messages"] = list(write.messages)
    if write.reserve is not None:
        route = write.reserve.route
        document["reserve"] = {
            "call_id": write.reserve.call_id,
            "model": route.model,
            "worst_case": str(route.worst_case),
            "currency": route.currency,
        }
    for name in ("step", "stage", "keep"):
        if (value := getattr(write, name)) is not None:
            document[name] = value
    if write.told is not None:
        document["told"] = {"step": write.told.step, "events": [list(event) for event in write.told.events]}
    if write.waiting is not None:
        document["wait"] = _waiting_document(write.waiting)
    if write.ending is not None:
        document["finish"] = _ending_document(write.ending)
    return document


def _round_document(write: Write) -> dict[str, Any]:
    document: dict[str, Any] = {"unbegun": True} if write.unbegun else {}
    if write.absorb:
        document["absorb"] = UNDERSTANDS
    if write.intents:
        document["intents"] = [
            {
                "call_index": intent.call_index,
                "call_id": intent.call_id,
                "tool": intent.tool,
                "class": intent.effect,
                "args_hash": intent.args_hash,
                "proof": intent.proof,
            }
            for intent in write.intents
        ]
    if write.results:
        document["results"] = [
            {"call_index": result.call_index, "state": result.state, "result": result.result}
            for result in write.results
        ]
    return document


def _waiting_document(waiting: Waiting) -> dict[str, Any]:
    return {
        "reason": waiting.reason,
        "seconds": waiting.wake_in.total_seconds() if waiting.wake_in is not None else None,
        "retries": waiting.retries,
        "approvals": [
            {
                "id": asked.id,
                "call_index": asked.call_index,
                "tool": asked.tool,
                "args_hash": asked.args_hash,
                "question": asked.question,
            }
            for asked in waiting.approvals
        ],
        "parts": list(waiting.parts),
    }


def _ending_document(ending: Ending) -> dict[str, Any]:
    document: dict[str, Any] = {
        "state": ending.state,
        "outcome": ending.outcome,
        "terminal": ending.terminal,
        "drop": ending.drop,
    }
    if ending.parts is not None:
        document["parts"] = [*ending.parts, *(file.body() for file in ending.files)]
    if ending.session is not None:
        document["session"] = {
            "context_tokens": ending.session.context_tokens,
            "model": ending.session.model,
            "warned": ending.session.warned,
            "pending_warning": ending.session.pending_warning,
            "compact_above": ending.session.compact_above,
        }
    if ending.compact is not None:
        document["compact"] = ending.compact
    if ending.compaction is not None:
        compaction = ending.compaction
        document["compaction"] = {
            "summary": compaction.summary,
            "live_from": compaction.live_from,
            "removed_messages": compaction.removed_messages,
            "summary_tokens": compaction.summary_tokens,
            "compaction_number": compaction.number,
        }
    return document
