"""Picks the concrete classes of the indexer, for its process and for each job, and closes what it opens."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from services.indexer.edge.workspace import WorkspaceFolder
from services.indexer.ports import Workspace
from services.indexer.rules.chunking import Chunking
from services.indexer.settings import Settings
from shared.adapters.foundation import not_set, open_foundation
from shared.adapters.postgres.files import PostgresFiles
from shared.adapters.postgres.pool import open_database
from shared.adapters.postgres.workspace_id import check_workspace
from shared.adapters.redis.job_worker import JobWorker
from shared.errors import ConfigError
from shared.messages import routes
from shared.ports.files import Files
from shared.runtime.service import Service
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, resident_bytes


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration) -> AsyncIterator[Service]:
    """The indexer, ready to take jobs."""
    settings = Settings.of(configuration)
    lag = LoopLag()
    worker: JobWorker | None = None

    def vitals() -> Mapping[str, str]:
        return {"rss_bytes": str(resident_bytes()), **(worker.vitals if worker else {})}

    async with open_foundation(
        "indexer",
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        vitals=vitals,
        lag=lambda: lag.lately,
    ) as foundation:
        assert settings.redis_url is not None  # noqa: S101 - the foundation has refused otherwise
        worker = JobWorker(
            settings.redis_url,
            name=f"indexer-{foundation.identity.id}",
            jobs={routes.INDEX_QUEUE: {routes.INDEX_JOB}},
        )
        yield Service("indexer", loops=(*foundation.loops, lag.watch, worker.run), drain=worker.stop)


@dataclass(frozen=True, slots=True)
class Indexing:
    """What one job works with."""

    workspace: Workspace
    files: Files
    chunking: Chunking


@contextlib.asynccontextmanager
async def open_indexing(configuration: Configuration) -> AsyncIterator[Indexing]:
    """Connections of one job. Raises ``ConfigError`` also when the folder is not the one that the database knows:
    what seems to have vanished there must not be forgotten."""
    settings = Settings.of(configuration)
    if settings.database_url is None:
        raise ConfigError([not_set("LUCYD_DATABASE_URL")])
    async with open_database(settings.database_url, application="lucyd index", connections=1) as database:
        await check_workspace(database, settings.workspace)
        folder = WorkspaceFolder(settings.workspace, settings.patterns, settings.exclude_dirs)
        yield Indexing(folder, PostgresFiles(database), settings.chunking)
