"""The adapters of those commands that work without a gateway."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.resources import files

from cli.edge.postgres_probe import look_at_postgres
from cli.rules.diagnosis import Finding, on_postgres
from cli.rules.failure import Failure
from shared.adapters.postgres.api_keys import PostgresApiKeys
from shared.adapters.postgres.migrate import migrate
from shared.adapters.postgres.pool import conninfo, open_database
from shared.adapters.postgres.unreachable import address_of as postgres_address
from shared.adapters.postgres.unreachable import reason_of as postgres_reason
from shared.adapters.redis.connection import address_of as redis_address
from shared.adapters.redis.connection import check_server, open_redis, reason_of
from shared.errors import ConfigError, TryLater
from shared.ports.api_keys import ApiKeys

_MEND_POSTGRES = "start the server, or correct LUCYD_DATABASE_URL"
_MEND_REDIS = "start the server, or correct LUCYD_REDIS_URL"
_ASK_WITHIN_SECONDS = 10
_KEYS_WITHIN = timedelta(seconds=5)


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
