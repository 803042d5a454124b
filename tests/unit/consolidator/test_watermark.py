"""Which messages wait to be drawn into memory."""

from uuid import UUID

import pytest

from services.consolidator.actions.find_backlog import NAMED, find_backlog
from services.consolidator.rules.watermark import Span, unconsolidated
from shared.ports.backlog import SessionLine, Watermark

SESSION = UUID(int=1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (SessionLine(SESSION, 0, 10, None), Span(0, 10)),
        (SessionLine(SESSION, 2, 10, None), Span(0, 10)),
        (SessionLine(SESSION, 0, 10, Watermark(0, 4)), Span(4, 6)),
        (SessionLine(SESSION, 0, 10, Watermark(0, 7)), None),
        (SessionLine(SESSION, 0, 10, Watermark(0, 10)), None),
        (SessionLine(SESSION, 1, 6, Watermark(0, 40)), Span(1, 5)),
        (SessionLine(SESSION, 1, 4, Watermark(0, 40)), None),
        (SessionLine(SESSION, 0, 3, None), None),
    ],
)
def test_a_session_is_taken_up_where_it_was_left(line: SessionLine, expected: Span | None) -> None:
    """All at first, then what is new; after a compaction all but the summary, which says what is known already."""
    assert unconsolidated(line, at_least=4) == expected


def test_nothing_new_is_never_a_span() -> None:
    """Also when the operator asks for a minimum of 0."""
    assert unconsolidated(SessionLine(SESSION, 0, 4, Watermark(0, 4)), at_least=0) is None


class Shelf:
    """Two sessions."""

    async def lines(self, *, at_least: int, limit: int) -> list[SessionLine]:
        return [SessionLine(SESSION, 0, at_least, None), SessionLine(UUID(int=2), 0, 9, Watermark(0, 9))][:limit]


async def test_the_backlog_is_reported() -> None:
    """Operators see how far memory lags behind."""
    found = await find_backlog(Shelf(), at_least=4)
    assert found == {"sessions": [{"session": str(SESSION), "from": 0, "count": 4}], "total": 1, "messages": 4}


class FullShelf:
    """More sessions than anybody wants to read of."""

    async def lines(self, *, at_least: int, limit: int) -> list[SessionLine]:
        return [SessionLine(UUID(int=number), 0, at_least, None) for number in range(1, 101)][:limit]


async def test_a_long_backlog_is_counted_and_not_listed() -> None:
    """Redis keeps each report for a day: its size must not grow with the house."""
    found = await find_backlog(FullShelf(), at_least=4)
    assert len(found["sessions"]) == NAMED
    assert (found["total"], found["messages"]) == (100, 400)
