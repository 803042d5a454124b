"""How long a dead child stays dead."""

from datetime import timedelta

from deploy.local.backoff import FIRST, HEALTHY, LONGEST, next_pause

AT_ONCE = timedelta(0)


def test_a_child_that_keeps_dying_is_started_less_and_less_often() -> None:
    """A broken service must neither burn a core nor stay away for long once it is repaired."""
    pauses = []
    pause = None
    for _ in range(8):
        pause = next_pause(pause, AT_ONCE)
        pauses.append(pause)
    assert pauses[:4] == [FIRST, FIRST * 2, FIRST * 4, FIRST * 8]
    assert pauses[-1] == LONGEST


def test_a_child_that_lived_long_enough_starts_afresh() -> None:
    """One crash a day is no reason to wait ten seconds."""
    assert next_pause(LONGEST, HEALTHY) == FIRST
