"""Picks the concrete classes of the consolidator, for its process and for each job, and closes what it opens."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from services.consolidator.ports import Figures
from services.consolidator.settings import Settings
from shared.adapters.foundation import not_set, open_foundation
from shared.adapters.postgres.backlog import PostgresBacklog
from shared.adapters.postgres.figures import PostgresFigures
from shared.adapters.postgres.pool import open_database
from shared.adapters.redis.job_worker import JobWorker
from shared.errors import ConfigError
from shared.messages import routes
from shared.ports.backlog import Backlog
from shared.runtime.service import Service
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, resident_bytes


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration) -> AsyncIterator[Service]:
    """The consolidator, ready to take jobs."""
    settings = Settings.of(configuration)
    lag = LoopLag()
    worker: JobWorker | None = None

    def vitals() -> Mapping[str, str]:
        return {"rss_bytes": str(resident_bytes()), **(worker.vitals if worker else {})}

    async with open_foundation(
        "consolidator",
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        vitals=vitals,
        lag=lambda: lag.lately,
    ) as foundation:
        assert settings.redis_url is not None  # noqa: S101 - the foundation has refused otherwise
        worker = JobWorker(
            settings.redis_url,
            name=f"consolidator-{foundation.identity.id}",
            jobs={routes.CONSOLIDATE_QUEUE: {routes.CONSOLIDATE_JOB}, routes.MAINTAIN_QUEUE: {routes.MAINTAIN_JOB}},
        )
        yield Service("consolidator", loops=(*foundation.loops, lag.watch, worker.run), drain=worker.stop)


@dataclass(frozen=True, slots=True)
class Store:
    """What one job works with."""

    backlog: Backlog
    figures: Figures
    min_messages: int


@contextlib.asynccontextmanager
async def open_store(configuration: Configuration) -> AsyncIterator[Store]:
    """Connections of one job. Raises ``ConfigError`` when no database is named."""
    settings = Settings.of(configuration)
    if settings.database_url is None:
        raise ConfigError([not_set("LUCYD_DATABASE_URL")])
    async with open_database(settings.database_url, application="lucyd consolidate", connections=1) as database:
        yield Store(PostgresBacklog(database), PostgresFigures(database), settings.min_messages)
