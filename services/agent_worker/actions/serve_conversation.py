"""Claim a conversation and work through its line until nothing is left, or it is another's."""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from services.agent_worker.actions.answer_message import answer_message
from services.agent_worker.actions.ask_model import left_open
from services.agent_worker.actions.attempt import Attempt, HandBack
from services.agent_worker.actions.compact_session import compact_session
from services.agent_worker.actions.desk import Desk
from services.agent_worker.actions.remember_history import Histories, Remembered, whole_history
from services.agent_worker.actions.tell import Teller
from services.agent_worker.rules.effects import doubts
from services.agent_worker.rules.history import closing_rows
from services.agent_worker.rules.run_loop import own_messages
from shared.domain.run import Claim, Ending, Write
from shared.errors import LostClaim, TryLater
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.runs import FinishedRun

log = structlog.get_logger(__name__)

INTERNAL = "Something went wrong inside Lucyd while this was answered; the log of the worker has the details."


async def serve_conversation(
    conversation: str,
    desk: Desk,
    histories: Histories,
    *,
    entry: str = "",
    on_claim: Callable[[int], None] = lambda _: None,
) -> None:
    """Answer everything that stands in this conversation's line. Called twice, the second finds nothing.

    ``on_claim`` is told the epoch of each claim, so that somebody can see when it is overtaken.
    Raises ``Fenced`` when this worker counts as dead.
    """
    while not desk.draining.is_set():
        held = histories.lend(conversation)
        try:
            await book_what_is_owed(desk)  # known figures first: a claim books what it finds open as a guess
            claim = await desk.runs.claim(
                conversation,
                worker=desk.worker,
                call_id=new_id(),
                routes=desk.routes,
                cached=held.known if held is not None else None,
            )
        except TryLater as fault:
            log.warning("claim_put_off", conversation=conversation, reason=str(fault))
            if held is not None:
                histories.keep(conversation, held)
            return  # the wake-up stays unacknowledged; it, or the sweep, comes back
        if claim == "fenced":
            if desk.draining.is_set():
                return  # asked before the drain was known, answered after it: a peer takes the conversation
            raise Fenced
        desk.outlet.acknowledge(entry)
        if isinstance(claim, str):
            if held is not None:
                histories.keep(conversation, held)
            return
        on_claim(claim.epoch)
        desk.outlet.owner(conversation, f"{desk.worker} {claim.epoch}")
        if not await _work_on(claim, desk, histories, whole_history(held, claim)):
            return


class Fenced(Exception):
    """Peers have seen this worker's beat stand still: stop everything."""


async def _work_on(claim: Claim, desk: Desk, histories: Histories, held: Remembered) -> bool:
    """One attempt; true when the conversation is still this worker's and more waits in it."""
    attempt = _attempt(claim, desk, held)
    try:
        more = await (compact_session(attempt) if claim.kind == "compact" else answer_message(attempt))
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
    if claim.kind == "message" and not attempt.dropped:
        histories.keep(claim.conversation, held)
    if not more:
        desk.outlet.owner(claim.conversation, "")
    return more


def _owe(attempt: Attempt) -> None:
    """What was bought is owed, also when its answer will never be stored."""
    if (settlement := left_open(attempt)) is not None:
        attempt.desk.owed.append(settlement)


async def book_what_is_owed(desk: Desk) -> None:
    """Settle calls of attempts that are no more. Raises ``TryLater``; what is not booked stays owed."""
    while desk.owed:
        settlement = desk.owed.pop()
        try:
            await desk.runs.settle(settlement)
        except TryLater:
            desk.owed.append(settlement)
            raise


def _attempt(claim: Claim, desk: Desk, held: Remembered) -> Attempt:
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
        call_id=claim.call_id if claim.stage != "tools" else None,
        cost=claim.spent.cost,
        usage=claim.spent.usage,
        notices=[doubt.for_person() for doubt in doubts(said)],
    )


async def _hand_back(attempt: Attempt) -> None:
    """Between two steps: nothing is lost, and the attempt does not count."""
    claim, desk = attempt.claim, attempt.desk
    _owe(attempt)
    with contextlib.suppress(TryLater):
        await book_what_is_owed(desk)
    if await desk.runs.hand_back(claim.conversation, worker=desk.worker, epoch=claim.epoch):
        desk.outlet.wake(claim.conversation)
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
        more = await attempt.store(
            Write(id=new_id(), run=claim.run, messages=rows, settle=left_open(attempt), told=told, ending=ending)
        )
    except (LostClaim, TryLater):
        _owe(attempt)
        return False
    desk.outlet.finish(FinishedRun(claim.run, claim.conversation, terminal, outcome, attempt.teller.last))
    return more
