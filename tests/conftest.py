"""Starts the servers once, and gives each test a database and a Redis of its own. Nothing else is decided here."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis.asyncio
from psycopg import sql

from deploy.local.servers import open_servers
from shared.adapters.postgres.migrate import migrate
from shared.adapters.postgres.pool import Database, open_database
from shared.adapters.redis.connection import open_redis
from tests.memory_folder import memory_folder
from tests.spare_databases import SpareDatabases, open_spare_databases

TEMPLATE = "lucyd_test_template"

# Whoever runs the tests in the background has SIGINT ignored, and so would everything that they start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


_TESTS = Path(__file__).resolve().parent
MOST_LANES = 6
"""Each has servers of its own."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many tests run beside each other with ``-n auto``: as many as there are processors.

    One only on servers that were given: each test empties Redis.
    """
    if os.environ.get("LUCYD_TEST_REDIS_URL") or os.environ.get("LUCYD_TEST_CONTAINERS") == "1":
        return 0
    return min(os.cpu_count() or 1, MOST_LANES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With LUCYD_TEST_AGAIN=1, what races against real processes gets a second try, and the summary names it.

    A change must not be turned away because the machine stood still for a second; who tests by hand sees it at once.
    """
    if os.environ.get("LUCYD_TEST_AGAIN") == "1":
        for item in items:
            if item.path.is_relative_to(_TESTS / "integration") or item.path.is_relative_to(_TESTS / "e2e"):
                item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))


@dataclass(frozen=True, slots=True)
class TestServers:
    """Addresses of a Postgres whose role may create databases, and of a Redis that the tests may empty."""

    __test__ = False

    database_url: str
    redis_url: str


def with_database(url: str, name: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServers]:
    """Postgres and Redis: those of LUCYD_TEST_*_URL, containers when asked for, else the embedded ones."""
    database_url, redis_url = os.environ.get("LUCYD_TEST_DATABASE_URL"), os.environ.get("LUCYD_TEST_REDIS_URL")
    if database_url and redis_url:
        yield TestServers(database_url, redis_url)
        return
    if os.environ.get("LUCYD_TEST_CONTAINERS") == "1":
        from tests.container_servers import open_containers  # noqa: PLC0415 - pulls in a container client

        with open_containers() as (database_url, redis_url):
            yield TestServers(database_url, redis_url)
        return
    with contextlib.ExitStack() as until_the_end:
        folder = until_the_end.enter_context(memory_folder()) or tmp_path_factory.mktemp("servers")
        embedded = until_the_end.enter_context(open_servers(folder))
        yield TestServers(embedded.database_url, embedded.redis_url)


@pytest.fixture(scope="session")
def template(servers: TestServers) -> str:
    """A migrated database that others are copied from."""
    with psycopg.connect(servers.database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(TEMPLATE)))
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
    migrate(with_database(servers.database_url, TEMPLATE))
    return TEMPLATE


@pytest.fixture(scope="session")
def spare_databases(servers: TestServers, template: str) -> Iterator[SpareDatabases]:
    """Copies of the migrated database."""
    with open_spare_databases(servers.database_url, template) as spare:
        yield spare


@pytest.fixture
def database_url(servers: TestServers, spare_databases: SpareDatabases) -> Iterator[str]:
    """A database of this test's own, with all tables."""
    name = spare_databases.take()
    yield with_database(servers.database_url, name)
    spare_databases.give_back(name)


@pytest.fixture
async def redis_url(servers: TestServers) -> str:
    """An empty Redis."""
    client = redis.asyncio.Redis.from_url(servers.redis_url)
    await client.flushall()
    await client.aclose()
    return servers.redis_url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A pool on this test's database."""
    async with open_database(database_url, application="lucyd tests", connections=8) as opened:
        yield opened


@pytest.fixture
async def redis_client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A client on the empty Redis."""
    async with open_redis(redis_url) as client:
        yield client


@pytest.fixture
def project() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parent.parent
