"""One attempt at a run, from the claim to whatever ends it: an end, a wait, a stop, a drain, a lost claim, a fault."""

import asyncio
import contextlib
from collections.abc import Coroutine
from datetime import timedelta

import structlog

from services.agent_worker.actions.answer_message import answer_message
from services.agent_worker.actions.ask_model import left_open
from services.agent_worker.actions.attempt import Attempt, HandBack, Stop, Suspend
from services.agent_worker.actions.compact_session import compact_session
from services.agent_worker.actions.desk import Desk
from services.agent_worker.actions.end_run import end_stopped, tell_end
from services.agent_worker.actions.mind_children import collect_children
from services.agent_worker.actions.remember_history import Histories, Remembered
from services.agent_worker.actions.send_outbound import send_outbound
from services.agent_worker.actions.tell import Teller
from services.agent_worker.rules.effects import doubts
from services.agent_worker.rules.history import closing_rows
from services.agent_worker.rules.run_loop import own_messages
from shared.domain.run import Claim, Ending, Write
from shared.errors import LostClaim, TryLater
from shared.ids import new_id
from shared.messages.run_events import terminal_id

log = structlog.get_logger(__name__)

CANCELLED = "It was cancelled."
STOPS_WITHIN = timedelta(seconds=3)
"""How long work that is told to stop may take for it; then its run ends all the same."""

INTERNAL = "Something went wrong inside Lucyd while this was answered; the log of the worker has the details."


async def work_on(claim: Claim, desk: Desk, histories: Histories, held: Remembered, stop: Stop) -> bool:
    """Make one attempt at a run; true when the conversation is still this worker's and more waits in it."""
    attempt = _attempt(claim, desk, held, stop)
    try:
        more = await _carry_out(attempt)
    except LostClaim:
        log.warning("claim_lost", run=str(claim.run), epoch=claim.epoch)
        _owe(attempt)
        return False
    except HandBack:
        await _hand_back(attempt)
        return False
    except TryLater as fault:
        # Postgres stayed away longer than a step can wait: whoever finds the conversation next goes on from there.
        log.warning("run_left", run=str(claim.run), epoch=claim.epoch, reason=str(fault))
        _owe(attempt)
        return False
    except asyncio.CancelledError:
        _owe(attempt)  # dropped by a drain, or overtaken by a reset
        raise
    except Exception:
        log.exception("run_broke", run=str(claim.run), epoch=claim.epoch)
        return await _give_up(attempt)
    if claim.child is not None:
        await collect_children(claim.child.parent, desk)  # it may have ended
    if claim.kind in {"message", "outbound"} and not attempt.dropped:
        histories.keep(claim.conversation, held)
    if not more:
        desk.outlet.owner(claim.conversation, "")
    return more


async def _carry_out(attempt: Attempt) -> bool:
    """Work until the run ends, waits, or is to be stopped; true when more waits in the conversation."""
    claim = attempt.claim
    attempt.teller.event("attempt", {"epoch": claim.epoch, "attempt": claim.attempts, "keep": claim.keep})
    attempt.teller.monitor(
        contact=claim.contact,
        principal=claim.principal,
        session_id=claim.session.id,
        run_id=claim.run,
        message_started_at=f"{attempt.desk.clock.now().timestamp():.3f}",
    )
    if attempt.stop.reason is None:
        work = asyncio.create_task(_work_of(attempt))
        try:
            if await _finished_first(work, attempt.stop):
                return work.result()
        except Suspend as pause:
            return await _suspend(attempt, pause)
    return await end_stopped(attempt, attempt.stop.reason or CANCELLED)


def _work_of(attempt: Attempt) -> Coroutine[None, None, bool]:
    match attempt.claim.kind:
        case "compact":
            return compact_session(attempt)
        case "outbound":
            return send_outbound(attempt)
        case _:
            return answer_message(attempt)


async def _finished_first(work: asyncio.Task[bool], stop: Stop) -> bool:
    """Wait for the work or for the stop; work that is stopped is waited for, but not for long."""
    asked = asyncio.create_task(stop.asked())
    try:
        await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=STOPS_WITHIN.total_seconds())
            work.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks any more
    return work.done() and not work.cancelled()


async def _suspend(attempt: Attempt, pause: Suspend) -> bool:
    """Store that the run waits, and let go of it."""
    claim, desk, waiting = attempt.claim, attempt.desk, pause.waiting
    stored = await attempt.store(
        Write(
            id=new_id(),
            run=claim.run,
            settle=pause.settlement,
            keep=attempt.teller.keep(),
            told=attempt.teller.told(),
            waiting=waiting,
        )
    )
    if stored.outcome is not None:  # it was cancelled meanwhile, and what waits is never looked at for that again
        tell_end(attempt, stored, terminal_id(claim.epoch), stored.outcome)
        attempt.teller.monitor(state="idle", tools_in_flight="")
        return stored.more
    attempt.dropped = True  # its rows may be, while it waits: the history is read anew then
    attempt.teller.stored()
    attempt.teller.monitor(state="waiting", tools_in_flight="")
    desk.outlet.owner(claim.conversation, "")
    if waiting.parts:
        desk.outlet.nudge(claim.channel)
    log.info("run_waits", run=str(claim.run), reason=waiting.reason, epoch=claim.epoch)
    if waiting.reason == "child":  # the last of them may have ended just before this was stored
        await collect_children(claim.run, desk)
    return False


def _owe(attempt: Attempt) -> None:
    """What was bought is owed, also when its answer will never be stored."""
    if (settlement := left_open(attempt)) is not None:
        attempt.desk.owed.append(settlement)


async def book_what_is_owed(desk: Desk) -> None:
    """Settle calls of attempts that are no more. Raises ``TryLater``; what is not booked stays owed."""
    while desk.owed:
        settlement = desk.owed[-1]
        await desk.runs.settle(settlement)  # whoever is stopped here leaves it owed; booked twice, it counts once
        if settlement in desk.owed:
            desk.owed.remove(settlement)


def _attempt(claim: Claim, desk: Desk, held: Remembered, stop: Stop) -> Attempt:
    model = desk.models[claim.route.model]
    said = own_messages(held.rows, claim.run)
    return Attempt(
        claim=claim,
        desk=desk,
        model=model,
        teller=Teller(
            desk.outlet,
            run=claim.run,
            conversation=claim.conversation,
            epoch=claim.epoch,
            step=claim.step,
            keep=claim.keep,
        ),
        rows=held.rows,
        history=list(held.readable),
        said=said,
        step=claim.step,
        keep=claim.keep,
        call_id=claim.call_id if claim.stage != "tools" and claim.kind != "outbound" else None,
        cost=claim.spent.cost,
        usage=claim.spent.usage,
        notices=[doubt.for_person() for doubt in doubts(said)],
        tried=claim.retries,
        stop=stop,
        # It can ask nobody, also where the operator wants that only since it was spawned.
        scope=claim.child.tools - desk.manner.ask_first if claim.child is not None else None,
    )


async def _hand_back(attempt: Attempt) -> None:
    """Between two steps: nothing is lost, and the attempt does not count."""
    claim, desk = attempt.claim, attempt.desk
    _owe(attempt)
    with contextlib.suppress(TryLater):
        await book_what_is_owed(desk)
    if await desk.runs.hand_back(claim.conversation, worker=desk.worker, epoch=claim.epoch, unbegun=attempt.unbegun):
        desk.outlet.wake(claim.conversation, claim.principal)
        desk.outlet.owner(claim.conversation, "")
        log.info("run_handed_back", run=str(claim.run), epoch=claim.epoch)


async def _give_up(attempt: Attempt) -> bool:
    """A fault of our own: the person is told, the line goes on, and the session stays usable."""
    claim, desk = attempt.claim, attempt.desk
    outcome = {
        "state": "failed",
        "run_id": str(claim.run),
        "session_id": str(claim.session.id),
        "conversation": claim.conversation,
        "reply": "",
        "error": INTERNAL,
        "error_message": desk.manner.error_message,
    }
    terminal = terminal_id(claim.epoch)
    ending = Ending("failed", outcome, terminal, drop=not attempt.said)
    rows = closing_rows(attempt.said, INTERNAL)
    told = attempt.teller.told()
    try:
        stored = await attempt.store(
            Write(id=new_id(), run=claim.run, messages=rows, settle=left_open(attempt), told=told, ending=ending)
        )
    except (LostClaim, TryLater):
        _owe(attempt)
        return False
    tell_end(attempt, stored, terminal, outcome)
    return stored.more
