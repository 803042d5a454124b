"""What a seed of the chaos runs means."""

import pytest

from tests.chaos.faults import FAULTS as DONE
from tests.chaos.plan import FAULTS, KINDS, WIPING, plan_asks, plan_faults


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_always_the_same_plan(seed: int) -> None:
    """A red run is told by its seed."""
    assert plan_asks(seed, 60) == plan_asks(seed, 60)
    assert plan_faults(seed, 60) == plan_faults(seed, 60)
    assert plan_asks(seed, 60) != plan_asks(seed + 1, 60)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("seconds", [30, 60, 600])
def test_every_fault_comes_in_its_time(seed: int, seconds: float) -> None:
    """A run that never killed Postgres says nothing of Postgres; one that wipes at its end compares no stream."""
    planned = plan_faults(seed, seconds)
    assert {each.fault for each in planned} == set(FAULTS) == set(DONE)
    assert [each.at for each in planned] == sorted(each.at for each in planned)
    assert all(0 < each.at < seconds for each in planned)
    assert all(each.at < seconds * 0.6 for each in planned if each.fault in WIPING)


def test_every_kind_of_ask_comes_with_keys_of_its_own() -> None:
    """The outside counter of acts goes by these keys."""
    asks = plan_asks(1, 60)
    assert {ask.kind for ask in asks} == set(KINDS)
    assert len({ask.key for ask in asks}) == len(asks)
    assert {ask.streamed for ask in asks} == {True, False}
