"""At which boundary a run stands, told from notes."""

import struct

import pytest

from tests.chaos.boundaries import InLine, Note, Whereabouts
from tests.chaos.line import Statements
from tests.chaos.plan import FEW, MANY, MANY_FROM
from tests.chaos.table import Table

OPEN = float("inf")
LINE = (InLine("a", "c", 1, 1.0, 9.0), InLine("b", "c", 2, 2.0, OPEN))
NOTES = (
    Note(3.0, 7, "claiming", "c"),
    Note(3.1, 7, "claimed", "c", "a", "1"),
    Note(4.0, 7, "asking", "c", "a"),
    Note(5.0, 7, "storing answer", "c", "a"),
    Note(6.0, 7, "acting", "c", "a"),
    Note(6.5, 7, "acted", "c", "a"),
    Note(7.0, 7, "storing results", "c", "a"),
    Note(8.0, 7, "finishing", "c", "a"),
    Note(9.0, 7, "telling", "c", "a"),
    Note(9.5, 7, "told", "c", "a"),
    Note(10.0, 7, "claiming", "c"),
)


@pytest.mark.parametrize(
    ("time", "standing"),
    [
        (0.5, {}),
        (1.5, {"a": "accepted"}),
        (3.05, {"a": "claiming", "b": "accepted"}),
        (4.5, {"a": "asking", "b": "accepted"}),
        (5.5, {"a": "storing answer", "b": "accepted"}),
        (6.2, {"a": "acting", "b": "accepted"}),
        (6.7, {"a": "acting", "b": "accepted"}),
        (7.5, {"a": "storing results", "b": "accepted"}),
        (8.5, {"a": "finishing", "b": "accepted"}),
        (9.2, {"a": "telling", "b": "accepted"}),
        (9.7, {"b": "accepted"}),
        (10.5, {"b": "claiming"}),
    ],
)
def test_a_run_stands_where_its_worker_noted_it_last(time: float, standing: dict[str, str]) -> None:
    """The table of the kill matrix is counted by this."""
    assert Whereabouts(LINE, NOTES, {}).at(time) == standing


def test_a_run_whose_worker_has_died_is_in_line_again() -> None:
    """Else a fault would be counted at a boundary where nothing was under way any more."""
    assert Whereabouts(LINE, NOTES, {7: 5.2}).at(5.1) == {"a": "storing answer", "b": "accepted"}
    assert Whereabouts(LINE, NOTES, {7: 5.2}).at(5.3) == {"a": "accepted", "b": "accepted"}


def test_a_run_whose_end_is_noted_as_told_is_nowhere() -> None:
    """Whoever told it may have died before it could write that down."""
    line = (InLine("a", "c", 1, 1.0, 9.0, 9.4), LINE[1])
    assert Whereabouts(line, NOTES[:9], {7: 9.3}).at(9.35) == {"a": "telling", "b": "accepted"}
    assert Whereabouts(line, NOTES[:9], {7: 9.3}).at(9.45) == {"b": "accepted"}


def test_the_table_names_what_it_lacks() -> None:
    """A cell that nobody tried must not look like one that held."""
    table = Table(["kill worker"])
    table.add("kill worker", {"a": "asking", "b": "asking"})
    table.add("kill worker", {str(number): "asking" for number in range(MANY_FROM)})
    assert table.lacks("kill worker", FEW)["asking"] == 3
    assert "asking" not in table.lacks("kill worker", MANY)
    assert table.least == 0
    assert any(line.startswith("kill worker, few: accepted 0") for line in table.low())


def test_a_line_knows_which_function_a_statement_calls() -> None:
    """The cut must come in COMMIT of a step, and not in a beat."""

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!I", len(body) + 4) + body

    startup = struct.pack("!II", 16, 196608) + b"user\0a\0\0"
    sent = (
        struct.pack("!II", 8, 80877103)
        + startup
        + message(b"P", b"p1\0select lucyd_store($1)\0\0\0")
        + message(b"B", b"\0p1\0rest")
        + message(b"E", b"\0\0\0\0\0")
        + message(b"Q", b"select 1\0")
    )
    whole, pieces = Statements(), Statements()
    assert whole.feed(sent) == [b"select lucyd_store($1)", b"select 1\0"]
    found = [query for place in range(len(sent)) for query in pieces.feed(sent[place : place + 1])]
    assert found == [b"select lucyd_store($1)", b"select 1\0"]
