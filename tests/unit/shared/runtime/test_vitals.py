"""A process that lives for months is as big as what it holds, not as what it once held."""

import sys

import pytest

from shared.runtime.vitals import give_memory_back, resident_bytes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library of Linux gives memory back when asked")
def test_what_was_freed_between_what_lives_on_is_given_back() -> None:
    """Long histories that end beside short ones that stay leave holes, and holes are memory too."""
    blocks = [bytes(4000 + number % 90) for number in range(25_000)]
    kept = blocks[::50]
    full = resident_bytes()
    del blocks
    assert full - resident_bytes() < 20e6, "it comes back by itself"
    give_memory_back()
    assert full - resident_bytes() > 40e6
    assert len(kept) == 500
