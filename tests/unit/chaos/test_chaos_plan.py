"""What a seed of the chaos runs means."""

from itertools import islice
from random import Random

import pytest

from tests.chaos.boundaries import BOUNDARIES, aimed_at
from tests.chaos.faults import FAULTS as DONE
from tests.chaos.faults import MORE
from tests.chaos.plan import (
    ASKED_FOR,
    FAULTS,
    FEW,
    HELD_OF_FEW,
    KINDS,
    MANY,
    MANY_FROM,
    WIPING,
    Cast,
    plan_asks,
    plan_faults,
    plan_few,
)
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
    first = list(islice(plan_faults(seed, load), 3 * len(FAULTS) + 2 * len(WIPING)))
    once = len(FAULTS) + len(WIPING)
    assert set(first[: len(FAULTS)]) == set(first[once : once + len(FAULTS)]) == set(first[2 * once :]) == set(FAULTS)
    assert set(FAULTS) == set(DONE)


@pytest.mark.parametrize("seed", range(20))
def test_four_scenes_with_few_runs_fill_a_row(seed: int) -> None:
    """The time is enough for so many, and a run too many would make them many."""
    random, lacking = Random(seed), dict.fromkeys(BOUNDARIES, 5)  # noqa: S311 - a plan, no secret
    for _ in range(4):
        held = plan_few(lacking, random)
        assert sum(held.values()) <= HELD_OF_FEW < MANY_FROM - 1
        assert "claiming" in held or "accepted" not in held
        lacking = {boundary: count - held.get(boundary, 0) for boundary, count in lacking.items()}
    assert not any(count > 0 for count in lacking.values())


def test_who_is_asked_for_a_boundary_is_held_there_and_nowhere_else() -> None:
    """The gates know a run by its conversation alone."""
    held = dict.fromkeys(BOUNDARIES, 5)
    asks = Cast(1).asks_for(held)
    senders = [ask.sender for ask in asks]
    assert asks == Cast(1).asks_for(held)
    assert len({ask.key for ask in asks}) == len(asks) == 40
    for boundary in set(BOUNDARIES) - {"accepted", "claiming"}:
        mine = [ask for ask in asks if aimed_at(f"http:key:{ask.sender}") == boundary]
        assert len(mine) == len({ask.sender for ask in mine}) == 5
        assert {ask.kind for ask in mine} <= set(ASKED_FOR[boundary])
    assert sorted(senders.count(sender) for sender in set(senders) if sender.startswith("claiming")) == [2] * 5


def test_nobody_else_is_held() -> None:
    """The clients beside a scene, and the tool that blocks, go their way."""
    assert {aimed_at(f"http:key:{sender}") for sender in ("s7", "b123", "x-7", "finishing", "finishing-7x")} == {""}


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
