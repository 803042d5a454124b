"""What an operator decides about something that was given up: once more, or never."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from shared.actions.accept_message import accept_message
from shared.domain.child_run import CHILD_CONVERSATIONS
from shared.domain.run import IdempotencyKey, NewRun
from shared.errors import BadInput, NotFound
from shared.ids import new_id
from shared.ports.bus import WakeUps
from shared.ports.dead_letters import DeadLetter, DeadLetters, Scope
from shared.ports.runs import Inbox

RETRY_SCOPE = "retry"
UNKNOWN = "nothing that was given up has this id"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long the new run may take, how many may wait with it, and how long asking twice gives the same one."""

    deadline: timedelta
    capacity: int
    key_lives: timedelta


async def find_dead(id: UUID, scope: Scope, dead: DeadLetters) -> DeadLetter:
    """One that was given up. Raises ``NotFound`` and ``TryLater``."""
    letter = await dead.find(id, scope)
    if letter is None:
        raise NotFound(UNKNOWN)
    return letter


async def retry_dead(
    letter: DeadLetter, *, dead: DeadLetters, inbox: Inbox, wake_ups: WakeUps, terms: Terms
) -> UUID | None:
    """Try it once more; the new run's id when it is a run, which never begins anew itself.

    Asked again it does nothing more, and names the same run. Raises ``BadInput`` for what can't be tried again,
    ``TryLater`` as accept does.
    """
    if letter.retried_as is not None:
        await dead.drop("run", letter.id)  # whoever asked first may have died before this
        return letter.retried_as
    if not letter.open:
        raise BadInput(f"this {letter.kind} was dropped")
    if letter.kind != "run":
        await dead.revive(letter.kind, letter.id)
        return None
    new = await _again(letter.id, dead, terms)
    accepted = await accept_message(new, inbox=inbox, wake_ups=wake_ups)
    await dead.drop("run", letter.id)
    return accepted.run


async def drop_dead(letter: DeadLetter, *, dead: DeadLetters) -> None:
    """Nothing more shall come of it; asked again it does nothing. Raises ``BadInput`` for a run that was retried."""
    if letter.retried_as is not None:
        raise BadInput(f"this run is tried again as {letter.retried_as}")
    await dead.drop(letter.kind, letter.id)


async def _again(run: UUID, dead: DeadLetters, terms: Terms) -> NewRun:
    asked = await dead.message(run)
    if asked is None:
        raise NotFound(UNKNOWN)
    if asked.kind == "outbound":
        raise BadInput("what was sent over HTTP is not tried again by itself: send it again, or drop it")
    if asked.kind != "message":
        raise BadInput(f"a {asked.kind} is not tried again: the next one is asked for when it is needed; drop it")
    if asked.address.conversation.startswith(CHILD_CONVERSATIONS):
        raise BadInput(
            "a sub-agent is not tried again by itself: whoever asked for it has read that it failed; drop it"
        )
    return NewRun(
        id=new_id(),
        address=asked.address,
        text=asked.text,
        source=asked.source,
        tier=asked.tier,
        sender=asked.sender,
        details=asked.details,
        idempotency=IdempotencyKey(RETRY_SCOPE, str(run), hashlib.sha256(run.bytes).digest(), terms.key_lives),
        deadline=terms.deadline,
        capacity=terms.capacity,
        webhook=asked.webhook,
        retry_of=run,
    )
