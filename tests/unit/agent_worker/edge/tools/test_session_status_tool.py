"""The agent asks how it stands."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from services.agent_worker.edge.tools.session_status import SessionStatusTool
from services.agent_worker.ports import ToolUse
from shared.ports.history import SessionStatus

STATUS = SessionStatus(
    context_tokens=50_000,
    context_limit=200_000,
    message_count=14,
    compaction_count=2,
    today_cost=Decimal("0.123456"),
    today_tokens=61_234,
    currency="EUR",
    uptime=timedelta(hours=3, minutes=5),
)


class KnownFigures:
    """One session's figures."""

    def __init__(self, session: UUID, status: SessionStatus) -> None:
        self._figures = {session: status}

    async def status(self, session_id: UUID) -> SessionStatus:
        return self._figures[session_id]


async def told(status: SessionStatus, use: ToolUse) -> list[str]:
    return (await SessionStatusTool(KnownFigures(use.session_id, status)).run({}, use)).split("\n")


async def test_all_figures_are_told(use: ToolUse) -> None:
    """Of the session that asks."""
    assert await told(STATUS, use) == [
        "Context: 50,000 of 200,000 tokens (25.0%)",
        "Messages: 14",
        "Compactions: 2",
        "Uptime: 3 h 5 min",
        "Today: 0.1235 EUR, 61,234 tokens",
    ]


async def test_an_unknown_window_has_no_percentage(use: ToolUse) -> None:
    """Nothing is divided by nothing."""
    assert (await told(replace(STATUS, context_limit=0), use))[0] == "Context: 50,000 tokens (limit unknown)"


@pytest.mark.parametrize(
    ("uptime", "text"),
    [(timedelta(seconds=59), "0 min"), (timedelta(minutes=7), "7 min"), (timedelta(days=2, hours=1), "2 d 1 h 0 min")],
)
async def test_uptime_is_readable(use: ToolUse, uptime: timedelta, text: str) -> None:
    """Days for an agent that lives for years."""
    assert (await told(replace(STATUS, uptime=uptime), use))[3] == f"Uptime: {text}"
