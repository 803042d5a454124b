"""Who may hold how many slots, and whose turn it is."""

import pytest

from services.agent_worker.rules.fair_share import FairShare
from services.agent_worker.rules.lines import Lines

SHARE = FairShare(8, window=0.5, weights={"heavy": 2.0, "light": 0.1})


def _lines(most: int = 100, share: FairShare = SHARE) -> Lines:
    return Lines(share, most=most)


def _begun(lines: Lines, count: int) -> list[str]:
    """So many turns, each of which begins."""
    turns = []
    for _ in range(count):
        turn = lines.next()
        if turn is None:
            break
        lines.begun(turn[1])
        turns.append(turn[0])
    return turns


def test_a_window_is_a_part_of_the_slots_times_the_weight() -> None:
    """Whatever is configured, nobody is shut out and nobody holds more than there is."""
    assert SHARE.most("anybody") == 4
    assert SHARE.most("heavy") == 8
    assert SHARE.most("light") == 1
    assert FairShare(8, window=0.0).most("anybody") == 1
    assert FairShare(1, window=0.5).most("anybody") == 1
    assert FairShare(8, window=1.0, weights={"heavy": 50.0}).most("heavy") == 8


def test_whoever_holds_its_window_has_no_turn_until_one_of_its_own_ends() -> None:
    """Long runs of one principal never take the slots that others will need."""
    lines = _lines()
    for number in range(6):
        lines.wait(f"a{number}", "a", now=0.0)
    assert _begun(lines, 9) == ["a0", "a1", "a2", "a3"]
    assert not lines.has_room("a")
    assert lines.has_room("b")

    lines.ended("a")
    assert _begun(lines, 9) == ["a4"]


def test_the_next_is_of_whom_is_served_least_and_then_who_has_waited_longest() -> None:
    """One message of somebody quiet does not wait behind a flood; among equals nobody overtakes."""
    lines = _lines()
    lines.begun("a")
    lines.begun("a")
    for name in ("a0", "a1", "b0", "c0", "b1"):
        lines.wait(name, name[0], now=0.0)

    assert _begun(lines, 5) == ["b0", "c0", "b1", "a0", "a1"]


def test_a_weight_gives_so_many_times_as_many_slots() -> None:
    """Where two have endless lines, slots come to stand as their weights."""
    lines = _lines(share=FairShare(6, window=1.0, weights={"heavy": 2.0}))
    for number in range(20):
        lines.wait(f"heavy {number}", "heavy", now=0.0)
        lines.wait(f"usual {number}", "usual", now=0.0)
    begun = _begun(lines, 6)

    assert sum(name.startswith("heavy") for name in begun) == 4


def test_nobody_overtakes_its_own_line() -> None:
    """A message that comes while a slot is being given out stands behind those that came before it."""
    lines = _lines()
    assert lines.has_room("a")
    lines.wait("a0", "a", now=0.0)
    assert not lines.has_room("a")
    assert list(lines.full()) == ["a"]


def test_a_conversation_waits_once_and_keeps_its_place() -> None:
    """Wake-ups come many times over."""
    lines = _lines()
    for name in ("x", "y", "x"):
        assert lines.wait(name, "a", now=0.0)
    assert len(lines) == 2
    assert "x" in lines
    assert _begun(lines, 3) == ["x", "y"]


def test_lines_know_since_when_their_first_has_waited() -> None:
    """Of whatever principal it is: how well a line moves is seen by it."""
    lines = _lines()
    assert lines.since is None
    lines.wait("a1", "a", now=5.0)
    lines.wait("b1", "b", now=6.0)
    lines.wait("a1", "a", now=7.0)  # it keeps its place
    assert lines.since == 5.0
    assert lines.next() == ("a1", "a")
    assert lines.since == 6.0
    assert lines.clear() == [("b1", "b")]
    assert lines.since is None


def test_lines_are_bounded() -> None:
    """What comes beyond is in Postgres; memory is not."""
    lines = _lines(most=2)
    assert [lines.wait(name, "a", now=0.0) for name in ("x", "y", "z", "x")] == [True, True, False, True]
    assert lines.clear() == [("x", "a"), ("y", "a")]
    assert (len(lines), lines.next()) == (0, None)


def test_full_lines_of_others_hide_nobody() -> None:
    """While slots are never free no sweep would look for who was left out, and the lines of a flood are always full."""
    lines = _lines(most=4)
    for number in range(3):
        lines.wait(f"a{number}", "a", now=0.0)
    lines.wait("b0", "b", now=0.0)
    assert lines.wait("c0", "c", now=0.0)
    assert not lines.wait("a3", "a", now=0.0)
    assert (len(lines), "a2" in lines) == (4, False)
    assert sorted(_begun(lines, 4)) == ["a0", "a1", "b0", "c0"]


def test_a_slot_is_given_up_between_two_runs_only_to_whom_is_served_no_better() -> None:
    """A hundred messages in one conversation are no reason to keep a slot; but slots do not wander for nothing."""
    lines = _lines(share=FairShare(2, window=0.5))
    lines.begun("a")
    assert not lines.comes_before("a")
    lines.wait("a1", "a", now=0.0)
    assert not lines.comes_before("a")
    lines.begun("b")
    lines.wait("c0", "c", now=0.0)
    assert lines.comes_before("a")
    lines.begun("c")
    assert not lines.comes_before("a")


@pytest.mark.parametrize(("slots", "favoured", "other"), [(1, 1, 0.1), (4, 100, 1), (2, 100, 0.01)])
def test_who_has_nothing_in_hand_never_waits_for_the_end_of_a_line(slots: int, favoured: float, other: float) -> None:
    """Where conversations are never done, slots come free in no other way; a small weight means little, not nothing."""
    lines = _lines(share=FairShare(slots, weights={"favoured": favoured, "other": other}))
    for _ in range(slots):
        lines.begun("favoured")
    lines.wait("other 0", "other", now=0.0)
    assert lines.comes_before("favoured")


def test_turns_that_are_outdated_are_swept_out() -> None:
    """A worker that runs for months must not remember every turn it gave."""
    lines = _lines(share=FairShare(1000))
    lines.wait("b0", "b", now=0.0)
    for _ in range(10):
        lines.begun("b")
    lines.wait("a0", "a", now=0.0)
    for _ in range(1000):
        lines.begun("b")
        lines.ended("b")

    assert len(lines._turns) < 100
    assert _begun(lines, 2) == ["a0", "b0"]
