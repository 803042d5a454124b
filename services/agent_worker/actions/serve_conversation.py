"""Claim a conversation and work through its line until nothing is left, or it is another's."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog

from services.agent_worker.actions.attempt import Stop
from services.agent_worker.actions.desk import Desk
from services.agent_worker.actions.remember_history import Histories, whole_history
from services.agent_worker.actions.suspects import STRONG
from services.agent_worker.actions.work_on import book_what_is_owed, work_on
from shared.domain.run import Claim, ClaimRefusal, Later
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.runs import Cached

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InHand:
    """What others must know of an attempt: its run and epoch, to see what it is, and how to stop it."""

    run: UUID
    epoch: int
    stop: Stop
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """What is left to do: ``again_in``, the conversation is to be looked at once more then; ``alone``, it is for a
    process that does nothing else."""

    again_in: timedelta | None = None
    alone: bool = False


async def serve_conversation(
    conversation: str,
    desk: Desk,
    histories: Histories,
    *,
    entry: str = "",
    on_claim: Callable[[InHand], None] = lambda _: None,
    yields: Callable[[], bool] = lambda: False,
) -> Served:
    """Answer everything that stands in this conversation's line. Called twice, the second finds nothing.

    ``on_claim`` is told of each claim; ``yields`` is asked before the next run of the line whether somebody else comes
    first. What a draining worker leaves is passed on to a peer. Raises ``Fenced`` when this worker counts as dead.
    """
    while not desk.draining.is_set():
        held = histories.lend(conversation)
        try:
            await book_what_is_owed(desk)  # known figures first: a claim books what it finds open as a guess
            claim, strong = await _claim(conversation, desk, held.known if held is not None else None)
        except TryLater as fault:
            log.warning("claim_put_off", conversation=conversation, reason=str(fault))
            if held is not None:
                histories.keep(conversation, held)
            return Served()  # the wake-up stays unacknowledged; it, or the sweep, comes back
        if claim == "fenced":
            if desk.draining.is_set():
                break  # asked before the drain was known, answered after it
            raise Fenced
        desk.outlet.acknowledge(entry)
        if not isinstance(claim, Claim):
            if held is not None:
                histories.keep(conversation, held)
            return _refused(conversation, desk, claim)
        stop = Stop(claim.cancel_asked)
        on_claim(InHand(claim.run, claim.epoch, stop, claim.principal))
        desk.outlet.owner(conversation, f"{desk.worker} {claim.epoch}")
        more = await work_on(claim, desk, histories, whole_history(held, claim), stop)
        if not more or (
            strong and not desk.draining.is_set()
        ):  # its room is for the next suspect, not for what stands behind it
            return Served(again_in=timedelta(0) if more else None)
        if desk.draining.is_set() or yields():
            return await _let_go(claim, desk)
    desk.outlet.wake(conversation)
    desk.outlet.acknowledge(entry)
    return Served()


async def _let_go(claim: Claim, desk: Desk) -> Served:
    """Give up the conversation between two of its runs; it is looked at again in its turn, here or by a peer."""
    try:
        if await desk.runs.hand_back(claim.conversation, worker=desk.worker, epoch=claim.epoch):
            desk.outlet.owner(claim.conversation, "")
    except TryLater as fault:
        log.warning("not_let_go", conversation=claim.conversation, reason=str(fault))  # it is still ours then
    if desk.draining.is_set():
        desk.outlet.wake(claim.conversation, claim.principal)  # now: the goodbye may have to wait long for the others
        return Served()
    return Served(again_in=timedelta(0))


async def _claim(conversation: str, desk: Desk, cached: Cached | None) -> tuple[Claim | ClaimRefusal | Later, bool]:
    """The claim, and whether it is of a run that is taken one at a time; its room is kept until somebody leaves it."""
    kept = desk.suspects.keep_room(conversation)
    strong = False
    try:
        claim = await desk.runs.claim(
            conversation,
            worker=desk.worker,
            call_id=new_id(),
            routes=desk.routes,
            cached=cached,
            suspect=kept,
            alone=desk.alone,
            debounce=desk.manner.debounce,
        )
        strong = isinstance(claim, Claim) and claim.suspected >= STRONG and not desk.alone
    finally:
        if kept and not strong:
            desk.suspects.give_up_room(conversation)
    return claim, strong


def _refused(conversation: str, desk: Desk, claim: ClaimRefusal | Later) -> Served:
    match claim:
        case Later(wait):
            return Served(again_in=wait)
        case "suspect":
            desk.suspects.wait(conversation)
        case "alone":
            return Served(alone=True)
    return Served()


class Fenced(Exception):
    """Peers have seen this worker's beat stand still: stop everything."""
