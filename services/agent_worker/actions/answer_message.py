"""Answer one message: model, tools, model ..., each step stored before the next begins."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import structlog

from services.agent_worker.actions.ask_model import CallFailed, ask_model, left_open, route_of
from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.actions.run_tools import intents, run_tools
from services.agent_worker.rules import compaction
from services.agent_worker.rules.history import closing_rows, unanswered_results
from services.agent_worker.rules.prompt import Situation, system_blocks
from services.agent_worker.rules.run_loop import (
    CUT_NOTE,
    AskModel,
    Finish,
    UseTools,
    compose_reply,
    next_step,
    stop_notice,
    turns_left_note,
)
from services.agent_worker.rules.silence import is_silent
from services.agent_worker.rules.storable import storable_answer
from shared.domain.chat import AssistantMessage, Message, SystemBlock, ToolResultsMessage
from shared.domain.run import Ending, Reservation, RunState, SessionAfter, Settlement, StoredEffect, Write
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.model import ModelAnswer
from shared.ports.runs import FinishedRun

log = structlog.get_logger(__name__)

OUT_OF_TIME = "This took longer than it may, and was stopped."


async def answer_message(attempt: Attempt) -> bool:
    """Take the run to its one outcome and store it; true when more waits in the conversation.

    Raises ``LostClaim`` (nothing more was written) and ``HandBack`` (all done so far is stored).
    """
    claim = attempt.claim
    attempt.teller.event("attempt", {"epoch": claim.epoch, "attempt": claim.attempts, "keep": claim.keep})
    attempt.teller.monitor(
        contact=claim.contact,
        session_id=claim.session.id,
        run_id=claim.run,
        message_started_at=f"{attempt.desk.clock.now().timestamp():.3f}",
    )
    try:
        async with asyncio.timeout(max(0.0, claim.time_left.total_seconds())):
            return await _work(attempt)
    except TimeoutError:
        return await _fail(attempt, OUT_OF_TIME, None)
    except CallFailed as fault:
        return await _fail(attempt, str(fault), fault.settlement)


async def _work(attempt: Attempt) -> bool:
    limits = attempt.desk.manner.limits
    system = await _system(attempt)
    interrupted: Sequence[StoredEffect] | None = attempt.claim.effects if attempt.claim.stage == "tools" else None
    while True:
        match next_step(attempt.said, spent=attempt.cost, limits=limits):
            case AskModel(turn):
                attempt.teller.monitor(state="thinking", turn=turn, model=attempt.model.spec.model, tools_in_flight="")
                tools = attempt.desk.toolbox.specs() if attempt.model.spec.supports_tools else ()
                answer, settlement = await ask_model(attempt, system, attempt.history, tools)
                attempt.paid(settlement)
                said = _assistant_message(answer)
                attempt.remember(said)
                following = next_step(attempt.said, spent=attempt.cost, limits=limits)
                if isinstance(following, Finish):
                    if (notice := stop_notice(answer.stop_reason)) is not None:
                        attempt.notices.append(notice)
                        attempt.teller.event("notice", {"text": notice})
                    return await _finish(attempt, following, [said], settlement)
                await _store_answer(attempt, said, settlement)
                if answer.stop_reason == "max_tokens":
                    attempt.cut_short = True
            case UseTools(asked):
                results, unstored = await run_tools(attempt, asked, interrupted)
                interrupted = None
                done: ToolResultsMessage = {"role": "tool_results", "results": results}
                _add_notes(attempt, done)
                attempt.remember(done)
                attempt.call_id = new_id()
                await _store_results(attempt, done, unstored)
            case Finish() as finish:
                return await _finish(attempt, finish, [], None)


async def _system(attempt: Attempt) -> list[SystemBlock]:
    desk, claim = attempt.desk, attempt.claim
    return system_blocks(
        await desk.workspace.context_files(claim.tier),
        desk.toolbox.specs() if attempt.model.spec.supports_tools else (),
        Situation(
            now=desk.clock.now(),
            agent_name=desk.manner.agent_name,
            source=claim.source,
            tier=claim.tier,
            contact=claim.contact,
            silent_tokens=desk.manner.silent_tokens,
            max_turns=desk.manner.limits.max_turns,
        ),
        max_tokens=desk.manner.max_system_tokens,
    )


def _assistant_message(answer: ModelAnswer) -> AssistantMessage:
    message: AssistantMessage = {"role": "assistant", "text": answer.text}
    if answer.tool_calls:
        message["tool_calls"] = list(answer.tool_calls)
    if answer.thinking:
        message["thinking"] = answer.thinking
    if answer.native is not None:
        message["native"] = answer.native
    return storable_answer(message)


def _add_notes(attempt: Attempt, done: ToolResultsMessage) -> None:
    """What the runtime has to say goes with the last result, where it is stored and stays the same."""
    turns = sum(1 for message in attempt.said if message["role"] == "assistant")
    note = turns_left_note(turns_made=turns, max_turns=attempt.desk.manner.limits.max_turns)
    notes = [text for text in (note, CUT_NOTE if attempt.cut_short else None) if text]
    attempt.cut_short = False
    if notes and done["results"]:
        last = done["results"][-1]
        last["content"] = "\n\n".join([last["content"], *notes])


async def _store_answer(attempt: Attempt, said: AssistantMessage, settlement: Settlement) -> None:
    keep, told, step = attempt.teller.keep(), attempt.teller.told(), attempt.step + 1
    attempt.step = step
    await attempt.store(
        Write(
            id=new_id(),
            run=attempt.claim.run,
            messages=[said],
            settle=settlement,
            intents=await intents(attempt, said.get("tool_calls", [])),
            step=step,
            stage="tools",
            keep=keep,
            told=told,
        )
    )
    attempt.stored(keep)


async def _store_results(attempt: Attempt, done: ToolResultsMessage, unstored: Sequence[Any]) -> None:
    keep, step = attempt.teller.keep(), attempt.step + 1
    call_id = attempt.call_id
    await attempt.store(
        Write(
            id=new_id(),
            run=attempt.claim.run,
            messages=[done],
            results=unstored,
            reserve=Reservation(call_id, route_of(attempt.model)) if call_id else None,
            step=step,
            stage="model",
            keep=keep,
            told=attempt.teller.told(),
        )
    )
    attempt.step = step
    attempt.stored(keep)


async def _finish(attempt: Attempt, finish: Finish, messages: Sequence[Message], settlement: Settlement | None) -> bool:
    manner = attempt.desk.manner
    reply = compose_reply(
        attempt.said, finish.reason, max_turns=manner.limits.max_turns, why_empty=attempt.notices[-1:]
    )
    rows = list(messages)
    if finish.unanswered is not None:
        rows.append(unanswered_results(finish.unanswered, f"Error: not run. {' '.join(reply.notices)}"))
        rows.append({"role": "assistant", "text": reply.notices[-1]})
    attempt.notices.extend(reply.notices)
    settlement = settlement or left_open(attempt)
    silent = is_silent(reply.text, manner.silent_tokens)
    for notice in reply.notices:
        attempt.teller.event("notice", {"text": notice})
    return await _end(attempt, "done", rows, settlement, {"reply": reply.text, "silent": silent})


async def _fail(attempt: Attempt, reason: str, settlement: Settlement | None) -> bool:
    """Nothing done yet: as if never said. Else history is closed, so that the next message finds it whole."""
    attempt.teller.event("notice", {"text": reason})
    rows = closing_rows(attempt.said, reason)
    settlement = settlement or left_open(attempt)
    if settlement is not None:
        attempt.paid(settlement)
    outcome = {"reply": "", "error": reason, "error_message": attempt.desk.manner.error_message}
    return await _end(attempt, "failed", rows, settlement, outcome, drop=not attempt.said)


async def _end(
    attempt: Attempt,
    state: RunState,
    rows: Sequence[Message],
    settlement: Settlement | None,
    said: dict[str, Any],
    *,
    drop: bool = False,
) -> bool:
    claim = attempt.claim
    outcome = {**said, **_account(attempt), "state": state}
    terminal = terminal_id(claim.epoch)
    session, compact = _session_after(attempt)
    more = await attempt.store(
        Write(
            id=new_id(),
            run=claim.run,
            messages=rows,
            settle=settlement,
            told=attempt.teller.told(),
            ending=Ending(state, outcome, terminal, session=session, drop=drop, compact=compact),
        )
    )
    # Only what is committed is told.
    attempt.desk.outlet.finish(FinishedRun(claim.run, claim.conversation, terminal, outcome, attempt.teller.last))
    attempt.teller.monitor(state="idle", tools_in_flight="")
    attempt.dropped = drop
    log.info(
        "run_finished",
        run=str(claim.run),
        state=state,
        epoch=claim.epoch,
        attempt=claim.attempts,
        cost=str(attempt.cost),
        turns=outcome["turns"],
    )
    return more


def _account(attempt: Attempt) -> dict[str, Any]:
    claim, usage = attempt.claim, attempt.usage
    return {
        "run_id": str(claim.run),
        "session_id": str(claim.session.id),
        "conversation": claim.conversation,
        "sender": claim.sender,
        "source": claim.source,
        "tokens": {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
        },
        # JSON has no decimals; the digits are those of the exact figure in the table of costs.
        "cost": float(attempt.cost),
        "currency": attempt.model.spec.rates.currency,
        "model": attempt.model.spec.model,
        "turns": sum(1 for message in attempt.said if message["role"] == "assistant"),
        "notices": list(attempt.notices),
    }


def _session_after(attempt: Attempt) -> tuple[SessionAfter, UUID | None]:
    """The warning at 80 % and the compaction that stands next in line, both in the transaction of the end."""
    manner, session = attempt.desk.manner.compaction, attempt.claim.session
    context = attempt.context_tokens or session.context_tokens
    warn = compaction.warning_due(
        context_tokens=context, threshold=manner.threshold, warning_share=manner.warning_share, warned=session.warned
    )
    due = compaction.compaction_due(
        context_tokens=context, threshold=manner.threshold, compact_above=session.compact_above
    )
    warning = None
    if warn and not due:
        warning = compaction.warning_text(context_tokens=context, threshold=manner.threshold)
    after = SessionAfter(
        context, attempt.model.spec.model, session.warned or warn, warning, compact_above=session.compact_above
    )
    return after, new_id() if due else None
