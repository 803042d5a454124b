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
) -> Served:
    """Answer everything that stands in this conversation's line. Called twice, the second finds nothing.

    ``on_claim`` is told of each claim. Raises ``Fenced`` when this worker counts as dead.
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
                return Served()  # asked before the drain was known, answered after it: a peer takes the conversation
            raise Fenced
        desk.outlet.acknowledge(entry)
        if not isinstance(claim, Claim):
            if held is not None:
                histories.keep(conversation, held)
            return _refused(conversation, desk, claim)
        stop = Stop(claim.cancel_asked)
        on_claim(InHand(claim.run, claim.epoch, stop))
        desk.outlet.owner(conversation, f"{desk.worker} {claim.epoch}")
        more = await work_on(claim, desk, histories, whole_history(held, claim), stop)
        if strong or not more:  # its room is for the next suspect, not for what stands behind it
            return Served(again_in=timedelta(0) if more else None)
    return Served()


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
