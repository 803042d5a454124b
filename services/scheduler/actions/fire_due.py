"""Fire the schedules that are due: each once, however often and by whomever it is tried."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from services.scheduler.ports import NotSent, Outbox
from services.scheduler.rules.firing import MOST_TRIES, Manner, outbound_of, pause, run_of
from shared.actions.accept_message import Door, accept_message
from shared.domain.schedule import Schedule
from shared.errors import BadInput, Full, NotFound, TryLater
from shared.ports.bus import WakeUps
from shared.ports.clock import Clock
from shared.ports.records import Whose
from shared.ports.schedules import DueSchedules

log = structlog.get_logger(__name__)

BATCH = 50
AT_ONCE = 4
"""Conversations; one that is locked holds up no other."""

NO_BRIDGE = "no bridge of this channel is running; nothing was sent"
NOBODY_THERE = "nobody has written from that chat yet, so nothing can be sent there"
UNEXPECTED = "it could not be accepted, for a reason that stands in the scheduler's log"


@dataclass(frozen=True, slots=True)
class Firing:
    """What firing needs."""

    schedules: DueSchedules
    door: Door
    outbox: Outbox
    wake_ups: WakeUps
    clock: Clock
    manner: Manner


async def fire_due(firing: Firing) -> int:
    """Fire what is due; how many were. Raises ``TryLater`` when Postgres is away: then all is as it was."""
    fired = 0
    while taken := await firing.schedules.take(limit=BATCH):
        fired += await _fire_all(taken, firing)
        if len(taken) < BATCH:
            break
    return fired


async def _fire_all(taken: Sequence[Schedule], firing: Firing) -> int:
    """Those of one conversation one after the other, in their order; some conversations at a time."""
    lines: dict[str, list[Schedule]] = {}
    for schedule in taken:
        lines.setdefault(schedule.conversation, []).append(schedule)
    turn = asyncio.Semaphore(AT_ONCE)

    async def fire_line(line: Sequence[Schedule]) -> int:
        async with turn:
            return sum([await _fire(schedule, firing) for schedule in line])

    done = await asyncio.gather(*(fire_line(line) for line in lines.values()), return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return sum(each for each in done if isinstance(each, int))


async def _fire(schedule: Schedule, firing: Firing) -> bool:
    assert schedule.run is not None  # noqa: S101 - whoever takes one gets a run with it
    try:
        run = await (_send if schedule.kind == "message" else _accept)(schedule, schedule.run, firing)
    except BadInput as fault:
        await _fail(schedule, str(fault), firing)
    except TryLater as fault:
        await _put_off(schedule, fault, firing)
    except Exception:  # one that can't be accepted must not hold up the others for ever
        log.exception("schedule_not_accepted", schedule=schedule.name)
        await _put_off(schedule, TryLater(UNEXPECTED), firing)
    else:
        await firing.schedules.fired(schedule.id, run)
        late = (firing.clock.now() - schedule.due_at).total_seconds()
        log.info("schedule_fired", schedule=schedule.name, run=str(run), late=round(late, 1))
        return True
    return False


async def _accept(schedule: Schedule, run: UUID, firing: Firing) -> UUID:
    new = run_of(schedule, run, now=firing.clock.now(), manner=firing.manner)
    return (await accept_message(new, inbox=firing.door, wake_ups=firing.wake_ups)).run


async def _send(schedule: Schedule, run: UUID, firing: Firing) -> UUID:
    """Words for somebody whom the principal of the schedule may reach. What was accepted before is not judged anew:
    the chat or the bridge may have gone since then."""
    if await firing.outbox.dispatch(run) is not None:
        return run
    place = schedule.place or ""
    channel = place.partition(":")[0]
    reached = Whose.within_reach(schedule.principal)
    found = await firing.outbox.places(channel, place, reached, limit=1)
    address = await firing.outbox.address(found[0]) if found else None
    if address is None:
        raise NotFound(NOBODY_THERE)
    if not await firing.outbox.is_led(channel):
        raise NotSent(NO_BRIDGE)
    new = outbound_of(schedule, run, address, now=firing.clock.now(), manner=firing.manner)
    return (await accept_message(new, inbox=firing.door, wake_ups=firing.wake_ups)).run


async def _put_off(schedule: Schedule, fault: TryLater, firing: Firing) -> None:
    if schedule.tries >= MOST_TRIES:
        await _fail(schedule, f"given up after {schedule.tries} tries: {fault}", firing)
        return
    after = pause(schedule.tries, asked=fault.after)
    # What was refused has certainly not been stored; of a lost answer nobody knows.
    certain = isinstance(fault, Full | NotSent)
    await firing.schedules.put_off(schedule, after=after, reason=str(fault), certain=certain)
    log.warning("schedule_put_off", schedule=schedule.name, reason=str(fault), again_in=after.total_seconds())


async def _fail(schedule: Schedule, reason: str, firing: Firing) -> None:
    await firing.schedules.fail(schedule.id, reason=reason)
    log.error("schedule_failed", schedule=schedule.name, reason=reason)
