"""What a seed of the chaos runs means."""

from itertools import islice, pairwise

import pytest

from tests.chaos.faults import FAULTS as DONE
from tests.chaos.faults import MORE
from tests.chaos.plan import FAULTS, FEW, KINDS, MANY, plan_asks, plan_faults, plan_phases
from tests.chaos.plants import PLANTS


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_always_the_same_plan(seed: int) -> None:
    """A red run is told by its seed."""
    assert list(islice(plan_asks(seed), 200)) == list(islice(plan_asks(seed), 200))
    assert list(islice(plan_asks(seed), 200)) != list(islice(plan_asks(seed + 1), 200))
    assert list(islice(plan_faults(seed, FEW), 200)) == list(islice(plan_faults(seed, FEW), 200))
    assert list(islice(plan_faults(seed, FEW), 200)) != list(islice(plan_faults(seed + 1, FEW), 200))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("load", [FEW, MANY])
def test_every_fault_comes_before_any_comes_again(seed: int, load: str) -> None:
    """A run that never killed Postgres says nothing of Postgres."""
    first = list(islice(plan_faults(seed, load), 2 * len(FAULTS)))
    assert set(first[: len(FAULTS)]) == set(first[len(FAULTS) :]) == set(FAULTS) == set(DONE)


@pytest.mark.parametrize("seconds", [20, 60, 300])
def test_quiet_and_busy_times_fill_the_whole_load(seconds: float) -> None:
    """A fault that never met many runs at once says nothing of many."""
    phases = plan_phases(seconds)
    assert {phase.load for phase in phases} == {FEW, MANY}
    assert phases[0].begins == 0
    assert phases[-1].ends == pytest.approx(seconds)
    assert all(before.ends == after.begins for before, after in pairwise(phases))


def test_every_kind_of_ask_comes_with_keys_of_its_own() -> None:
    """The outside counter of acts goes by these keys."""
    asks = list(islice(plan_asks(1), 300))
    assert {ask.kind for ask in asks} == set(KINDS)
    assert len({ask.key for ask in asks}) == len(asks)
    assert {ask.streamed for ask in asks} == {True, False}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_provoked_by_faults_that_exist(name: str) -> None:
    """Else it would be found missing only minutes later."""
    assert {aim.fault for aim in PLANTS[name].aims} <= {*DONE, *MORE}
