"""The adapters of those commands that work without a gateway."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from importlib.resources import files
from typing import TypeVar

import structlog

from cli.edge.postgres_probe import look_at_postgres
from cli.rules.diagnosis import Finding, on_postgres
from cli.rules.failure import Failure
from shared.adapters.mcp.servers import ConnectedServers
from shared.adapters.postgres.api_keys import PostgresApiKeys
from shared.adapters.postgres.migrate import migrate
from shared.adapters.postgres.pool import conninfo, open_database
from shared.adapters.postgres.unreachable import address_of as postgres_address
from shared.adapters.postgres.unreachable import reason_of as postgres_reason
from shared.adapters.redis.connection import address_of as redis_address
from shared.adapters.redis.connection import check_server, open_redis, reason_of
from shared.adapters.skill_folders import SkillFolders
from shared.domain.mcp_server import McpServer
from shared.domain.skill import SkillBook, SkillPlace
from shared.errors import ConfigError, TryLater
from shared.ports.api_keys import ApiKeys
from shared.ports.mcp_servers import McpServers

_MEND_POSTGRES = "start the server, or correct LUCYD_DATABASE_URL"
_MEND_REDIS = "start the server, or correct LUCYD_REDIS_URL"
_ASK_WITHIN_SECONDS = 10
_KEYS_WITHIN = timedelta(seconds=5)
_TO_LOAD = timedelta(seconds=10)

Answer = TypeVar("Answer")


def bring_up_to_date(database_url: str) -> list[str]:
    """Apply the migrations that are missing and name them; raises ``ConfigError``."""
    return migrate(database_url)


def with_keys(database_url: str, act: Callable[[ApiKeys], Awaitable[None]]) -> None:
    """Do something with the API keys. Raises ``ConfigError``, and ``Failure`` when there is no way to them."""

    async def acting() -> None:
        async with open_database(database_url, application="lucyd keys", connections=1) as database:
            if not await database.value("select to_regclass('api_keys') is not null", patience=_KEYS_WITHIN):
                raise Failure("The database has no table of keys yet; run `lucyd migrate`.")
            await act(PostgresApiKeys(database))

    try:
        asyncio.run(acting())
    except TryLater as fault:
        raise Failure(
            f"Postgres at {postgres_address(database_url)} does not answer: {fault}; {_MEND_POSTGRES}."
        ) from fault


def with_mcp_servers(servers: Sequence[McpServer], act: Callable[[McpServers], Answer]) -> Answer:
    """Connect with servers as a worker does, and do something once each has been tried."""
    # What a server says of itself is told by the command, and not by a log in the midst of it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    longest = max((server.start_timeout for server in servers), default=timedelta())

    async def acting() -> Answer:
        connected = ConnectedServers(servers)
        living = asyncio.create_task(connected.live())
        try:
            with contextlib.suppress(TimeoutError):
                await connected.tried(longest + _TO_LOAD)
            return act(connected)
        finally:
            living.cancel()
            await asyncio.wait({living})

    return asyncio.run(acting())


def read_skills(places: Sequence[SkillPlace]) -> SkillBook:
    """The skills that lie there now, as a worker reads them."""
    folders = SkillFolders(places)
    return folders.read(folders.look())


def examine_postgres(database_url: str) -> list[Finding]:
    """What is to be said of the database; raises nothing."""
    try:
        state = look_at_postgres(conninfo(database_url, application="lucyd doctor"))
    except ConfigError as fault:
        return [Finding("fail", "Postgres", error) for error in fault.errors]
    except Failure as fault:
        told = f"at {postgres_address(database_url)} can't be reached: {postgres_reason(fault)}"
        return [Finding("fail", "Postgres", told, _MEND_POSTGRES)]
    return on_postgres(state, ours=_our_migrations())


def examine_redis(redis_url: str) -> list[Finding]:
    """What is to be said of Redis; raises nothing."""
    try:
        return [Finding("ok", "Redis", asyncio.run(_look_at_redis(redis_url)))]
    except ConfigError as fault:
        return [Finding("fail", "Redis", error) for error in fault.errors]
    except (TryLater, TimeoutError) as fault:
        told = f"at {redis_address(redis_url)} can't be reached: {reason_of(fault.__cause__ or fault)}"
        return [Finding("fail", "Redis", told, _MEND_REDIS)]


async def _look_at_redis(redis_url: str) -> str:
    async with asyncio.timeout(_ASK_WITHIN_SECONDS), open_redis(redis_url) as client:
        await check_server(client)
        info = await client.info("server")
        if info.get("valkey_version"):
            return f"Valkey {info['valkey_version']}, noeviction"
        return f"{info.get('redis_version', 'of an unknown version')}, noeviction"


def _our_migrations() -> list[str]:
    folder = files("shared.adapters.postgres").joinpath("migrations")
    return sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
