"""What the processes of one test share."""

from pathlib import Path

import pytest
import redis.asyncio

from tests.integration.services.service_process import Surroundings


@pytest.fixture
def surroundings(database_url: str, redis_url: str, redis_client: redis.asyncio.Redis, tmp_path: Path) -> Surroundings:
    """A database, a Redis and a data directory with an empty workspace."""
    (tmp_path / "workspace" / "memory").mkdir(parents=True)
    return Surroundings(database_url, redis_url, redis_client, tmp_path)
