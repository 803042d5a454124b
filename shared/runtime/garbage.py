"""The collector of cyclic garbage, for processes that live long and make much that dies by itself."""

import gc

THRESHOLDS = (10_000, 20, 50)
"""Of the three generations. The usual 700 make a look of every few runs, and find next to nothing: what a run leaves
behind is freed when its last name goes."""


def look_less_often() -> None:
    """To be called once everything is opened: what is there by then stays, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
