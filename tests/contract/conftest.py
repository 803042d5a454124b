"""The stores of runs that most of these tests are asked of."""

import pytest

from tests.runs_worlds import InMemoryWorld, PostgresWorld, World


@pytest.fixture(params=["inmemory", "postgres"])
def bare(request: pytest.FixtureRequest) -> World:
    """A store without any worker."""
    return InMemoryWorld() if request.param == "inmemory" else PostgresWorld(request.getfixturevalue("database"))


@pytest.fixture
async def world(bare: World) -> World:
    """A store with one living worker."""
    bare.me = await bare.hire()
    return bare
