"""The kill matrix in short: some seconds of what ``make chaos`` does for minutes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.checker import check
from tests.chaos.living import Order, live
from tests.chaos.report import tell

pytestmark = pytest.mark.alone

SEED = 1
SECONDS = 12.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a unix socket in it can't have a long one."""
    made = Path(tempfile.mkdtemp(prefix="lucyd-chaos-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.timeout(300)
def test_some_seconds_of_faults_break_no_promise(folder: Path) -> None:
    """Whoever changes the heart of the system learns within a minute that it no longer holds; no table is filled."""
    lived = live(folder, Order(SEED, SECONDS))
    found = check(lived.history)
    assert not found, tell(SEED, SECONDS, lived, found)
    assert sum(hit.came for hit in lived.hits) >= 3
    assert len(lived.history.runs) >= 10
