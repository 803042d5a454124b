"""Throw away what has been kept long enough."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from services.scheduler.ports import Upkeep
from shared.ports.clock import Clock

log = structlog.get_logger(__name__)

BATCH = 1000
BLOBS_AT_ONCE = 20
"""Each may be megabytes."""

CHILDREN_AT_ONCE = 100
"""Each has as many messages as its sub-agent made turns."""

WORKERS_FOR = timedelta(days=1)
RESERVATIONS_FOR = timedelta(days=7)
"""Long enough to ask after a call; then its row of costs says all that is left to say."""

EACH_AT_MOST = timedelta(seconds=30)
"""What is left after that is left to the next time."""

MOST_OFTEN = timedelta(seconds=10)
LEAST_OFTEN = timedelta(minutes=10)
"""At 150 runs a second a million rows come in an hour; so often, and so long for each kind, ten times that can go."""


BREATHER = timedelta(milliseconds=20)

Forget = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Kept:
    """How long things are kept; ``None``, and 0 months, are for ever."""

    streams: timedelta
    events: timedelta | None
    deliveries: timedelta | None
    attachments: timedelta | None
    runs: timedelta | None
    costs_months: int

    @property
    def look_every(self) -> timedelta:
        """How often to look: four times within the shortest time that something is kept; every ten minutes at least."""
        times = (self.streams, self.events, self.deliveries, self.attachments, self.runs)
        shortest = min(time for time in times if time is not None)
        return max(MOST_OFTEN, min(LEAST_OFTEN, shortest / 4))


async def retain(kept: Kept, upkeep: Upkeep, clock: Clock) -> Mapping[str, int]:
    """Forget in batches; how many rows of each kind are gone. Raises ``TryLater``; doing it again goes on with it."""
    steps: dict[str, Forget] = {
        "keys": partial(upkeep.forget_keys, limit=BATCH),
        "calls_booked": partial(upkeep.book_left_open, limit=BATCH),
        "reservations": partial(upkeep.forget_reservations, older_than=RESERVATIONS_FOR, limit=BATCH),
        "steps_told": partial(upkeep.forget_steps, ended_for=kept.streams, limit=BATCH),
        "workers": partial(upkeep.forget_workers, ended_for=WORKERS_FOR, limit=BATCH),
    }
    if kept.events is not None:
        steps["events"] = partial(upkeep.forget_events, older_than=kept.events, limit=BATCH)
        steps["sentences"] = partial(upkeep.forget_sentences, older_than=kept.events, limit=BATCH)
        steps["schedules"] = partial(upkeep.forget_schedules, older_than=kept.events, limit=BATCH)
    if kept.deliveries is not None:
        steps["deliveries"] = partial(upkeep.forget_deliveries, older_than=kept.deliveries, limit=BATCH)
        steps["webhooks"] = partial(upkeep.forget_webhooks, older_than=kept.deliveries, limit=BATCH)
    if (blobs_for := _shorter(kept.attachments, kept.runs)) is not None:  # before the runs, which wait for them
        steps["attachments"] = partial(upkeep.forget_blobs, older_than=blobs_for, limit=BLOBS_AT_ONCE)
    if kept.runs is not None:  # after the keys, since a run lives as long as its key
        steps["runs"] = partial(upkeep.forget_runs, older_than=kept.runs, limit=BATCH)
        steps["children"] = partial(upkeep.forget_children, older_than=kept.runs, limit=CHILDREN_AT_ONCE)
    if kept.costs_months:
        steps["costs"] = partial(upkeep.forget_costs, months=kept.costs_months, limit=BATCH)
    batches = {"attachments": BLOBS_AT_ONCE, "children": CHILDREN_AT_ONCE}
    gone = {name: await _exhaust(forget, clock, batches.get(name, BATCH)) for name, forget in steps.items()}
    log.info("retention_done", **gone)
    return gone


def _shorter(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    return min((time for time in (one, other) if time is not None), default=None)


async def _exhaust(forget: Forget, clock: Clock, batch: int) -> int:
    ends = clock.monotonic() + EACH_AT_MOST.total_seconds()
    total = 0
    while True:
        gone = await forget()
        total += gone
        if gone < batch or clock.monotonic() >= ends:
            return total
        await clock.sleep(BREATHER.total_seconds())
