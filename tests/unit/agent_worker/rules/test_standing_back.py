"""When a worker is one too many: each condition by itself."""

from dataclasses import replace
from datetime import timedelta

import pytest

from services.agent_worker.rules.standing_back import boot_of, is_full, is_surplus
from shared.messages.worker_figures import WorkerFigures

HERE = "boot-1/0-1"
OLDER = WorkerFigures(HERE, "yes", conversations=64, slots=128, in_line=0, waits=timedelta(0))


def test_two_older_workers_that_have_room_are_enough_for_two_processors() -> None:
    """The third and the fourth would only share their caches."""
    assert is_surplus(HERE, 2, [OLDER, OLDER])
    assert is_surplus(HERE, 2, [OLDER, OLDER, OLDER])


def test_the_oldest_of_a_machine_are_never_surplus() -> None:
    """Somebody has to take the work, however full the processors are."""
    assert not is_surplus(HERE, 2, [])
    assert not is_surplus(HERE, 2, [OLDER])


@pytest.mark.parametrize("why", ["no (memory)", "no (draining)", "no (alone)", "no (processors are full)"])
def test_a_colleague_that_takes_nothing_does_not_count(why: str) -> None:
    """Two that both stood back for each other would leave one processor idle."""
    assert not is_surplus(HERE, 2, [OLDER, replace(OLDER, taking=why)])
    assert is_surplus(HERE, 2, [OLDER, replace(OLDER, taking=why), OLDER])


@pytest.mark.parametrize("elsewhere", ["boot-2/0-1", "boot-1/2-3", "boot-1/0"])
def test_a_colleague_on_other_processors_does_not_count(elsewhere: str) -> None:
    """It leaves these ones as they are."""
    assert not is_surplus(HERE, 2, [OLDER, replace(OLDER, machine=elsewhere)])


def test_nobody_stands_back_when_the_slots_of_the_others_run_out() -> None:
    """Together they hold seven eighths of their slots at most."""
    full = replace(OLDER, conversations=128)
    assert is_surplus(HERE, 2, [full, replace(OLDER, conversations=96)])
    assert not is_surplus(HERE, 2, [full, replace(OLDER, conversations=97)])


def test_nobody_stands_back_when_somebody_waits_for_long_in_the_line_of_another() -> None:
    """A line that moves is the processors' doing; one that stands is for want of room."""
    moves = replace(OLDER, in_line=40, waits=timedelta(seconds=1))
    stands = replace(OLDER, in_line=1, waits=timedelta(seconds=1.1))
    assert is_surplus(HERE, 2, [OLDER, moves])
    assert not is_surplus(HERE, 2, [OLDER, stands])


def test_processors_are_full_from_ninety_percent_until_they_are_below_eighty() -> None:
    """A machine at the edge does not change its mind each second."""
    assert [is_full(busy, was_full=False) for busy in (0.89, 0.9, 1.0)] == [False, True, True]
    assert [is_full(busy, was_full=True) for busy in (0.79, 0.8, 1.0)] == [False, True, True]


def test_where_nobody_can_tell_they_are_not_full() -> None:
    """Other systems do not say it this way, and nobody stands back there."""
    assert not is_full(None, was_full=False)
    assert not is_full(None, was_full=True)


def test_containers_of_one_machine_have_one_boot() -> None:
    """Each has a host's name and a namespace of its own."""
    assert boot_of("6f1c/pid:[4026531836]") == boot_of("6f1c/pid:[4026532777]") == boot_of("6f1c") == "6f1c"
