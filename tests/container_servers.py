"""The same servers from containers, for those who have an engine (LUCYD_TEST_CONTAINERS=1)."""

import contextlib
from collections.abc import Iterator

from testcontainers.community.postgres import PostgresContainer
from testcontainers.community.redis import RedisContainer


@contextlib.contextmanager
def open_containers() -> Iterator[tuple[str, str]]:
    """Postgres with pgvector, and Redis; their addresses."""
    with PostgresContainer("pgvector/pgvector:pg18", driver=None) as postgres, RedisContainer("redis:7") as cache:
        address = f"redis://{cache.get_container_host_ip()}:{cache.get_exposed_port(6379)}/0"
        yield postgres.get_connection_url(), address
