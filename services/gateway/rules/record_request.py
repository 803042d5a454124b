"""What may be asked of records: runs by session and state, months by their name."""

from datetime import date
from uuid import UUID

from pydantic import Field

from services.gateway.rules.request_body import Number, RequestQuery
from shared.domain.run import RunState

MOST_RUNS = 200


class RunsQuery(RequestQuery):
    """Which runs."""

    session: UUID | None = Field(None, description="Those of this session.")
    state: RunState | None = Field(None, description="Those in this state.")
    limit: Number = Field(50, ge=1, le=MOST_RUNS, description="At most so many, the newest first.")


def month_of(period: str) -> date | None:
    """The first day of the month that ``2026-05`` names; ``None`` for a period of another kind."""
    year, dash, month = period.partition("-")
    return date(int(year), int(month), 1) if dash else None
