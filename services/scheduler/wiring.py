"""Picks the concrete classes of the scheduler, opens them, and closes them in reverse."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

from services.scheduler.actions.enqueue_due import enqueue_due
from services.scheduler.actions.expire_runs import expire_runs
from services.scheduler.actions.fire_due import Firing, fire_due
from services.scheduler.actions.lead import Role, lead_or_stand_by
from services.scheduler.actions.retain import retain
from services.scheduler.edge.clockwork import Beat, keep_time
from services.scheduler.settings import Settings
from shared.actions.cancel_run import end_overdue
from shared.actions.keep_door import Doorkeeper
from shared.adapters.foundation import open_foundation
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.leadership import PostgresLeadership
from shared.adapters.postgres.outbox import PostgresOutbox
from shared.adapters.postgres.runs import PostgresRuns
from shared.adapters.postgres.schedules import PostgresSchedules
from shared.adapters.postgres.upkeep import PostgresUpkeep
from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.queues import open_queues
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.system_clock import SystemClock
from shared.runtime.service import Service
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, resident_bytes


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration) -> AsyncIterator[Service]:
    """The scheduler, ready to lead or to stand by."""
    settings = Settings.of(configuration)
    lag = LoopLag()
    clock = SystemClock()
    role: Role = "standby"

    retained: dict[str, str] = {}

    def vitals() -> Mapping[str, str]:
        return {"rss_bytes": str(resident_bytes()), "role": role, **retained}

    def take_role(now: Role) -> None:
        nonlocal role
        role = now

    async with contextlib.AsyncExitStack() as stack:
        foundation = await stack.enter_async_context(
            open_foundation(
                "scheduler",
                database_url=settings.database_url,
                redis_url=settings.redis_url,
                vitals=vitals,
                lag=lambda: lag.lately,
            )
        )
        assert settings.database_url is not None  # noqa: S101 - the foundation has refused otherwise
        assert settings.redis_url is not None  # noqa: S101 - as above
        queues = await stack.enter_async_context(open_queues(settings.redis_url))
        leadership = PostgresLeadership(settings.database_url)
        stack.push_async_callback(leadership.close)
        runs, inbox = PostgresRuns(foundation.database), PostgresInbox(foundation.database)
        upkeep = PostgresUpkeep(foundation.database)
        bulletin = RedisBulletin(foundation.redis, stream_ttl=settings.stream_ttl, result_ttl=settings.result_ttl)
        wake_ups = RedisWakeUps(foundation.redis, consumer=str(foundation.identity.id), stream_ttl=settings.stream_ttl)
        firing = Firing(
            PostgresSchedules(foundation.database),
            Doorkeeper(inbox, clock, settings.bounds),
            PostgresOutbox(foundation.database),
            wake_ups,
            clock,
            settings.manner,
        )

        async def throw_away() -> None:
            gone = await retain(settings.kept, upkeep, clock)
            retained.update(retained_at=clock.now().isoformat(), rows_forgotten=str(sum(gone.values())))

        async def work() -> None:
            asked: dict[str, str] = {}
            beats = (
                Beat("deadlines", lambda: expire_runs(runs, inbox, bulletin), every=timedelta(seconds=1)),
                Beat("cancels", lambda: end_overdue(runs, inbox, bulletin), every=timedelta(seconds=1)),
                Beat("schedules", lambda: fire_due(firing), every=timedelta(seconds=1)),
                Beat("errands", lambda: enqueue_due(queues, clock, asked), every=timedelta(seconds=10)),
                Beat(
                    "retention",
                    throw_away,
                    every=settings.kept.look_every,
                    after=timedelta(seconds=20),
                ),
            )
            await keep_time(beats, clock)

        yield Service(
            "scheduler",
            loops=(*foundation.loops, lag.watch, lambda: lead_or_stand_by(leadership, work, clock, take_role)),
        )
