"""Answer one message: model, tools, model ..., each step stored before the next begins."""

import asyncio
from collections.abc import Sequence

import structlog

from services.agent_worker.actions.ask_first import asked_first, must_ask
from services.agent_worker.actions.ask_model import CallFailed, ask_model, route_of
from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.actions.end_run import fail_run, finish_run
from services.agent_worker.actions.heed_skills import heed_skills, pick_skills
from services.agent_worker.actions.let_through import OutOfMoney
from services.agent_worker.actions.prepare_messages import prepare_history, prepared_message
from services.agent_worker.actions.run_tools import intents, run_tools
from services.agent_worker.ports import NotPrepared
from services.agent_worker.rules.prompt import Situation, system_blocks
from services.agent_worker.rules.run_loop import (
    CUT_NOTE,
    AskModel,
    Finish,
    UseTools,
    next_step,
    stop_notice,
    turns_left_note,
)
from services.agent_worker.rules.skills_in_use import SkillsShown
from services.agent_worker.rules.storable import storable_answer
from shared.domain.chat import AssistantMessage, Message, SystemBlock, ToolResult, ToolResultsMessage
from shared.domain.run import (
    EffectResult,
    Reservation,
    Settlement,
    StoredEffect,
    Write,
)
from shared.ids import new_id
from shared.ports.model import ModelAnswer

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
        return await fail_run(attempt, OUT_OF_TIME, None, own_words=True)
    except NotPrepared as fault:
        return await fail_run(attempt, str(fault), None, own_words=True)
    except OutOfMoney:
        return await finish_run(attempt, Finish("cost_limit"), [], None)
    except CallFailed as fault:
        return await fail_run(attempt, str(fault), fault.settlement)


async def _work(attempt: Attempt) -> bool:
    limits = attempt.limits
    await prepare_history(attempt)
    skills = pick_skills(attempt)
    heed_skills(attempt, skills)
    attempt.look()
    system = await _system(attempt, skills)
    interrupted: Sequence[StoredEffect] = attempt.claim.effects if attempt.claim.stage == "tools" else ()
    while True:
        match next_step(attempt.said, spent=attempt.spent, limits=limits):
            case AskModel(turn):
                heed_skills(attempt, skills)
                attempt.look()  # what the model is offered now holds for all that it asks for
                attempt.teller.monitor(
                    state="thinking",
                    turn=turn,
                    model=attempt.model.spec.model,
                    tools_in_flight="",
                    turn_started_at=f"{attempt.desk.clock.now().timestamp():.3f}",
                )
                tools = attempt.specs() if attempt.model.spec.supports_tools else ()
                answer, settlement = await ask_model(attempt, system, attempt.history, tools)
                attempt.paid(settlement)
                said = _assistant_message(answer)
                following = next_step([*attempt.said, said], spent=attempt.spent, limits=limits)
                if isinstance(following, Finish):
                    attempt.remember(said)
                    if (notice := stop_notice(answer.stop_reason)) is not None:
                        attempt.notices.append(notice)
                        attempt.teller.event("notice", {"text": notice})
                    return await finish_run(attempt, following, [said], settlement)
                await _store_answer(attempt, said, settlement)
                if answer.stop_reason == "max_tokens":
                    attempt.cut_short = True
            case UseTools(asked):
                results, unstored = await _use_tools(attempt, asked, interrupted)
                interrupted = ()
                done: ToolResultsMessage = {"role": "tool_results", "results": results}
                _add_notes(attempt, done)
                attempt.remember(done)
                attempt.call_id = new_id()
                for absorbed in await _store_results(attempt, done, unstored):
                    attempt.remember(await prepared_message(attempt, absorbed))
            case Finish() as finish:
                return await finish_run(attempt, finish, [], None)


async def _use_tools(
    attempt: Attempt, asked: AssistantMessage, interrupted: Sequence[StoredEffect]
) -> tuple[list[ToolResult], list[EffectResult]]:
    """Run the round, once everybody who must allow it has spoken; ``interrupted`` is what is stored of its effects."""
    calls = asked.get("tool_calls", [])
    denials = await asked_first(attempt, calls)
    known = {effect.call_index for effect in interrupted}
    without = {*denials, *known, *attempt.intended}
    if missing := await intents(attempt, calls, without, step=attempt.step):
        # The round waited for a person, or was handed back before it began; or what only read does more by now.
        await attempt.before_acting()  # what is stored among others can't be taken back by itself
        await attempt.store(Write(id=new_id(), run=attempt.claim.run, intents=missing))
        attempt.has_intended(missing)
        attempt.unbegun = not known
    return await run_tools(attempt, asked, interrupted, denials)


async def _system(attempt: Attempt, skills: SkillsShown) -> list[SystemBlock]:
    desk, claim = attempt.desk, attempt.claim
    return system_blocks(
        await desk.workspace.context_files(claim.tier),
        attempt.specs() if attempt.model.spec.supports_tools else (),
        Situation(
            now=desk.clock.now(),
            agent_name=desk.manner.agent_name,
            source=claim.source,
            tier=claim.tier,
            contact=claim.contact,
            silent_tokens=desk.manner.silent_tokens,
            max_turns=attempt.limits.max_turns,
            subagent=claim.child is not None,
        ),
        skills=skills,
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
    note = turns_left_note(turns_made=turns, max_turns=attempt.limits.max_turns)
    notes = [text for text in (note, CUT_NOTE if attempt.cut_short else None) if text]
    attempt.cut_short = False
    if notes and done["results"]:
        last = done["results"][-1]
        last["content"] = "\n\n".join([last["content"], *notes])


async def _store_answer(attempt: Attempt, said: AssistantMessage, settlement: Settlement) -> None:
    step = attempt.step + 1
    calls = said.get("tool_calls", [])
    written = [] if must_ask(attempt, calls) else await intents(attempt, calls, (), step=step)
    attempt.remember(said)
    attempt.unbegun, attempt.intended = True, {}
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
    attempt.has_intended(written)


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
