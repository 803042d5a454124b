"""The store of runs that some of these tests work on."""

import pytest

from tests.runs_worlds import InMemoryWorld


@pytest.fixture
async def world() -> InMemoryWorld:
    """A store with one living worker."""
    made = InMemoryWorld()
    made.me = await made.hire()
    return made
