"""The collector looks less often, and still finds what goes round in circles."""

import gc
import weakref

from shared.runtime.garbage import THRESHOLDS, look_less_often


class _Ring:
    def __init__(self) -> None:
        self.me = self


def test_what_was_opened_is_not_looked_at_and_rings_made_later_are_found() -> None:
    """A service that lives for months must not keep what nobody can reach."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        look_less_often()
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > frozen
        first = weakref.ref(_Ring())
        rings = [_Ring() for _ in range(2 * THRESHOLDS[0])]
        del rings
        more = [_Ring() for _ in range(2 * THRESHOLDS[0])]
        assert first() is None
        del more
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
