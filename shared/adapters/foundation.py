"""What every process stands on: Postgres, Redis, its identity, its monitor key and its health."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version as installed_version

import structlog

from shared.adapters.http.health import Check, health_app
from shared.adapters.http.listening import listen
from shared.adapters.http.metrics_page import MetricsPage
from shared.adapters.http.serve import serving
from shared.adapters.postgres.migrate import newest
from shared.adapters.postgres.pool import Database, open_database
from shared.adapters.postgres.unreachable import address_of as postgres_address
from shared.adapters.processes import this_process
from shared.adapters.redis.connection import Redis, check_server, open_redis
from shared.adapters.redis.connection import address_of as redis_address
from shared.adapters.redis.process_monitor import keep_monitor
from shared.errors import ConfigError, TryLater
from shared.ids import new_id
from shared.messages import routes
from shared.ports.fleet import Identity

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
SAY_EVERY = timedelta(seconds=5)
BLOCKED = timedelta(seconds=1)

Vitals = Callable[[], Mapping[str, str]]
LagOf = Callable[[], timedelta]


@dataclass(frozen=True, slots=True)
class Foundation:
    """Opened and checked. ``loops`` must run; ``checks`` are what ``/readyz`` asks."""

    database: Database
    redis: Redis
    identity: Identity
    checks: Mapping[str, Check]
    metrics: MetricsPage
    loops: tuple[Callable[[], Awaitable[None]], ...]


@contextlib.asynccontextmanager
async def open_foundation(
    service: str,
    *,
    database_url: str | None,
    redis_url: str | None,
    vitals: Vitals,
    lag: LagOf,
    health: tuple[str, int] | None = ("127.0.0.1", 0),
    connections: int = 4,
) -> AsyncIterator[Foundation]:
    """Open everything, waiting for servers that are still coming.

    ``health`` is where ``/healthz``, ``/readyz`` and ``/metrics`` are served (port 0: a free one, told in the monitor
    key), ``None`` where the service has an HTTP face of its own. Raises ``ConfigError`` for servers that must not be
    used.
    """
    database_url, redis_url = _required(database_url, redis_url)
    identity = this_process(id=new_id(), service=service, version=installed_version("lucyd"))
    async with contextlib.AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            open_database(database_url, application=f"lucyd {service}", connections=connections)
        )
        redis = await stack.enter_async_context(open_redis(redis_url))
        await asyncio.gather(
            _insist("Redis", redis_address(redis_url), lambda: check_server(redis)),
            _insist("Postgres", postgres_address(database_url), lambda: _check_schema(database)),
        )
        checks = _checks(database, redis, lag)
        metrics = MetricsPage(service, identity.version, lag=lag, vitals=vitals)
        address = ""
        if health is not None:
            listener = listen(*health)
            address = "http://{}:{}".format(*listener.getsockname()[:2])
            await stack.enter_async_context(
                serving(health_app(service, checks, metrics.text), listener, grace_seconds=1)
            )

        def fields() -> Mapping[str, str]:
            return {
                "service": service,
                "id": str(identity.id),
                "host": identity.host,
                "pid": str(identity.pid),
                "parent": str(os.getppid()),
                "version": identity.version,
                "state": "ready",
                "health": address,
                "loop_lag_ms": str(round(lag().total_seconds() * 1000)),
                "observed_at": datetime.now(UTC).isoformat(),  # noqa: TID251 - told to people, decides nothing
                **vitals(),
            }

        key = routes.monitor_process(service, identity.id)
        yield Foundation(database, redis, identity, checks, metrics, (lambda: keep_monitor(redis, key, fields),))


def not_set(variable: str) -> str:
    """What is wrong when this names no server."""
    return f"{variable} is not set; `make run` sets it, elsewhere name your own server."


def _required(database_url: str | None, redis_url: str | None) -> tuple[str, str]:
    errors = [
        not_set(name)
        for name, value in (("LUCYD_DATABASE_URL", database_url), ("LUCYD_REDIS_URL", redis_url))
        if not value
    ]
    if errors or database_url is None or redis_url is None:
        raise ConfigError(errors)
    return database_url, redis_url


async def _check_schema(database: Database) -> None:
    there = await database.value("select to_regclass('migrations') is not null")
    if not there or not await database.value("select exists (select 1 from migrations where name = %s)", (newest(),)):
        raise TryLater("the tables are not there yet; `lucyd migrate` makes them")


async def _insist(what: str, where: str, check: Callable[[], Awaitable[None]]) -> None:
    """Wait until the check passes; says so every five seconds. Ends only with the process."""
    pause, waited, said = FIRST_PAUSE, 0.0, 0.0
    while True:
        try:
            await check()
        except TryLater as fault:
            if waited - said >= SAY_EVERY.total_seconds():
                said = waited
                log.warning("waiting_for", what=what, where=where, reason=str(fault))
        else:
            return
        await asyncio.sleep(pause)
        waited += pause
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _checks(database: Database, redis: Redis, lag: LagOf) -> dict[str, Check]:
    async def postgres() -> str:
        await database.value("select 1", patience=timedelta(seconds=1))
        return "ok"

    async def redis_check() -> str:
        await redis.ping()
        return "ok"

    async def event_loop() -> str:
        return "ok" if lag() < BLOCKED else "blocked"

    return {"postgres": postgres, "redis": redis_check, "event_loop": event_loop}
