"""Ids that sort by the time they were made."""

import time

from shared.ids import new_id


def test_an_id_is_a_uuid_of_version_7() -> None:
    """Postgres and every client read it as one."""
    for _ in range(200):
        made = new_id()
        assert made.version == 7
        assert made.variant == "specified in RFC 4122"


def test_ids_sort_by_the_millisecond_they_were_made_in() -> None:
    """Rows that are written together lie together."""
    made = []
    for _ in range(5):
        made.append(new_id())
        time.sleep(0.002)
    assert made == sorted(made)
    now = time.time_ns() // 1_000_000
    assert 0 <= now - (made[-1].int >> 80) < 1_000


def test_ids_of_one_millisecond_differ() -> None:
    """A thousand workers make them without asking each other."""
    assert len({new_id() for _ in range(10_000)}) == 10_000
