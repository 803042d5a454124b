"""Answer one message: model, tools, model ..., each step stored before the next begins."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog

from services.agent_worker.actions.ask_first import asked_first, must_ask
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
from shared.domain.chat import AssistantMessage, Message, SystemBlock, ToolResult, ToolResultsMessage
from shared.domain.delivery import is_carried
from shared.domain.delivery import parts as in_parts
from shared.domain.run import (
    EffectResult,
    Ending,
    Reservation,
    RunState,
    SessionAfter,
    Settlement,
    Stored,
    StoredEffect,
    Write,
)
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.model import ModelAnswer
from shared.ports.runs import FinishedRun

log = structlog.get_logger(__name__)

OUT_OF_TIME = "This took longer than it may, and was stopped."


async def answer_message(attempt: Attempt) -> bool:
    """Take the run to its one outcome and store it; true when more waits in the conversation.

    Raises ``LostClaim`` (nothing more was written), ``HandBack`` (all done so far is stored) and ``Suspend``.
    """
    claim = attempt.claim
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
                following = next_step([*attempt.said, said], spent=attempt.cost, limits=limits)
                if isinstance(following, Finish):
                    attempt.remember(said)
                    if (notice := stop_notice(answer.stop_reason)) is not None:
                        attempt.notices.append(notice)
                        attempt.teller.event("notice", {"text": notice})
                    return await _finish(attempt, following, [said], settlement)
                await _store_answer(attempt, said, settlement)
                if answer.stop_reason == "max_tokens":
                    attempt.cut_short = True
            case UseTools(asked):
                results, unstored = await _use_tools(attempt, asked, interrupted)
                interrupted = None
                done: ToolResultsMessage = {"role": "tool_results", "results": results}
                _add_notes(attempt, done)
                attempt.remember(done)
                attempt.call_id = new_id()
                for absorbed in await _store_results(attempt, done, unstored):
                    attempt.remember(absorbed)
            case Finish() as finish:
                return await _finish(attempt, finish, [], None)


async def _use_tools(
    attempt: Attempt, asked: AssistantMessage, interrupted: Sequence[StoredEffect] | None
) -> tuple[list[ToolResult], list[EffectResult]]:
    """Run the round, once everybody who must allow it has spoken."""
    calls = asked.get("tool_calls", [])
    denials = await asked_first(attempt, calls)
    if (
        interrupted is not None
        and not interrupted
        and (written := await intents(attempt, calls, denials, step=attempt.step))
    ):
        # Nothing of this round was begun: it waited for a person, or was handed back before.
        await attempt.store(Write(id=new_id(), run=attempt.claim.run, intents=written))
        attempt.unbegun, interrupted = True, None
    return await run_tools(attempt, asked, interrupted, denials)


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
    step = attempt.step + 1
    calls = said.get("tool_calls", [])
    written = [] if must_ask(attempt, calls) else await intents(attempt, calls, {}, step=step)
    attempt.remember(said)
    attempt.unbegun = True
    await attempt.store(
        Write(
            id=new_id(),
            run=attempt.claim.run,
            messages=[said],
            settle=settlement,
            intents=written,
            step=step,
            stage="tools",
            keep=attempt.teller.keep(),
            told=attempt.teller.told(),
        )
    )


async def _store_results(
    attempt: Attempt, done: ToolResultsMessage, unstored: Sequence[EffectResult]
) -> Sequence[Message]:
    """Store the round; the steering messages that were taken in with it."""
    call_id = attempt.call_id
    stored = await attempt.store(
        Write(
            id=new_id(),
            run=attempt.claim.run,
            messages=[done],
            results=unstored,
            reserve=Reservation(call_id, route_of(attempt.model)) if call_id else None,
            step=attempt.step + 1,
            stage="model",
            keep=attempt.teller.keep(),
            told=attempt.teller.told(),
            absorb=True,
        )
    )
    return stored.absorbed


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


async def end_stopped(attempt: Attempt, reason: str) -> bool:
    """End the run because somebody asked for it; what it has done so far stands. Returns as ``answer_message`` does."""
    attempt.teller.event("notice", {"text": reason})
    rows = closing_rows(attempt.said, reason)
    settlement = left_open(attempt)
    if settlement is not None:
        attempt.paid(settlement)
    return await _end(
        attempt, "cancelled", rows, settlement, {"reply": "", "error": reason}, drop=not attempt.said, parts=()
    )


async def _end(
    attempt: Attempt,
    state: RunState,
    rows: Sequence[Message],
    settlement: Settlement | None,
    said: dict[str, Any],
    *,
    drop: bool = False,
    parts: Sequence[str] | None = None,
) -> bool:
    claim = attempt.claim
    outcome = {**said, **_account(attempt), "state": state}
    terminal = terminal_id(claim.epoch)
    session, compact = _session_after(attempt)
    if parts is None and is_carried(claim.channel):
        parts = _parts(attempt, outcome)
    stored = await attempt.store(
        Write(
            id=new_id(),
            run=claim.run,
            messages=rows,
            settle=settlement,
            results=attempt.results,
            told=attempt.teller.told(),
            unbegun=attempt.unbegun,
            ending=Ending(state, outcome, terminal, session=session, drop=drop, compact=compact, parts=parts),
        )
    )
    tell_end(attempt, stored, terminal, outcome)
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
    return stored.more


def _parts(attempt: Attempt, outcome: Mapping[str, Any]) -> list[str]:
    """What the channel carries: the reply or why there is none, and what else its person must know."""
    if outcome["state"] == "done":
        text = "" if outcome.get("silent") else str(outcome["reply"])
    else:
        text = str(outcome.get("error_message") or outcome["error"])
    told = [text, *(notice for notice in attempt.notices if notice not in text)]
    return in_parts("\n\n".join(part for part in told if part), limit=attempt.desk.manner.part_limit)


def tell_end(attempt: Attempt, stored: Stored, terminal: str, outcome: Mapping[str, Any]) -> None:
    """Tell the end of a run, and of those that ended with it. Only what is committed is told."""
    claim, outlet = attempt.claim, attempt.desk.outlet
    final = stored.outcome or outcome
    outlet.finish(FinishedRun(claim.run, claim.conversation, terminal, final, attempt.teller.last))
    for follower in stored.followers:
        followed = {**final, "run_id": str(follower), "merged_into": str(claim.run)}
        outlet.finish(FinishedRun(follower, claim.conversation, terminal, followed))
    if is_carried(claim.channel):
        outlet.nudge(claim.channel)


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
    return after, new_id() if due and attempt.claim.kind == "message" else None
