"""Output of unknown length, heard with known memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.head_and_tail import HeadAndTail


@given(st.lists(st.binary(max_size=50)), st.integers(min_value=0, max_value=60))
def test_everything_is_kept_up_to_the_limit_and_head_and_tail_beyond(pieces: list[bytes], limit: int) -> None:
    """How the flow is cut into pieces makes no difference."""
    kept = HeadAndTail(limit)
    for piece in pieces:
        kept.feed(piece)
    whole = b"".join(pieces)
    assert kept.is_over == (len(whole) > limit)
    if not kept.is_over:
        assert kept.text() == whole.decode(errors="replace")
        return
    head, tail = whole[: int(limit * 0.7)], whole[len(whole) - (limit - int(limit * 0.7)) :]
    marker = f"\n... [{len(whole) - limit} bytes cut] ...\n"
    assert kept.text() == head.decode(errors="replace") + marker + tail.decode(errors="replace")


@pytest.mark.parametrize("piece", [7, 4096, 1_000_000])
def test_memory_stays_bounded(piece: int) -> None:
    """A command may print for hours."""
    kept = HeadAndTail(1000)
    for _ in range(500):
        kept.feed(b"y" * piece)
        assert len(kept._head) + len(kept._tail) <= 700 + 2 * 300
