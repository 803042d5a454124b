"""Accept a message: stored in Postgres first, then somebody is woken. What was accepted can't be lost."""

from typing import Protocol

import structlog

from shared.actions.cancel_run import tell_to_cancel
from shared.domain.run import TERMINAL_STATES, Accepted, NewRun
from shared.errors import TryLater
from shared.ports.bus import WakeUp, WakeUps
from shared.ports.control import Command, Control

INTERRUPTED = "A newer message took its place."

log = structlog.get_logger(__name__)


class Door(Protocol):
    """Where messages are stored: an ``Inbox``, or a ``Doorkeeper`` before one."""

    async def accept(self, new: NewRun) -> Accepted:
        """See ``Inbox.accept``."""
        ...


async def accept_message(new: NewRun, *, inbox: Door, wake_ups: WakeUps, control: Control | None = None) -> Accepted:
    """The run that answers this message; a known idempotency key gives the one that is there, and wakes again.

    ``control`` makes an interrupt quick; without it the worker's sweep finds it. Raises ``Conflict``, ``Full``
    and ``TryLater`` as ``Inbox.accept`` does. A Redis that is away only delays: the sweep wakes.
    """
    accepted = await inbox.accept(new)
    if accepted.cancels is not None and control is not None:
        await tell_to_cancel(Command("cancel", accepted.cancels, accepted.conversation, INTERRUPTED), control)
    if accepted.state not in TERMINAL_STATES or accepted.into is not None:
        try:
            principal = new.address.principal
            await wake_ups.wake([WakeUp(accepted.conversation, accepted.run, new.traceparent, principal=principal)])
        except TryLater as fault:
            log.warning("wake_up_not_sent", run=str(accepted.run), reason=str(fault))
    return accepted
