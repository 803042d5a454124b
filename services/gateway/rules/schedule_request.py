"""What may be asked of schedules, and what is answered."""

from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from services.gateway.rules.reply_shapes import Named, Shape
from services.gateway.rules.request_body import Number, RequestQuery
from shared.domain.schedule import NAME, Schedule, ScheduleKind, ScheduleState

MOST_SCHEDULES = 200

SCHEDULE_PARTS = {"id": {"type": "string", "pattern": f"^{NAME}$"}}


class SchedulesQuery(RequestQuery):
    """Which schedules."""

    state: ScheduleState | None = Field(None, description="Those in this state.")
    limit: Number = Field(50, ge=1, le=MOST_SCHEDULES, description="At most so many, the newest first.")


class ScheduleShape(Shape):
    """A timer. ``target``: of a message, whom it is for. ``run_id``: what it became. ``reason``: why it failed, or was
    put off."""

    id: str = Field(pattern=f"^{NAME}$")
    kind: ScheduleKind
    state: ScheduleState
    text: str
    target: str | None
    conversation: str
    contact: str
    due_at: AwareDatetime
    created_at: AwareDatetime
    attempts: int
    run_id: UUID | None
    reason: str | None


class SchedulesReply(Named):
    """Schedules, the newest first."""

    schedules: list[ScheduleShape]


class ScheduleCancelledReply(Named):
    """It will not come."""

    cancelled: Literal[True]
    id: str


def schedule_body(schedule: Schedule) -> dict[str, Any]:
    """One entry of GET /api/v1/schedules."""
    fired = schedule.state == "fired" and schedule.run is not None
    return {
        "id": schedule.name,
        "kind": schedule.kind,
        "state": schedule.state,
        "text": schedule.text,
        "target": schedule.target,
        "conversation": schedule.conversation,
        "contact": schedule.contact,
        "due_at": schedule.due_at.isoformat(),
        "created_at": schedule.created_at.isoformat(),
        "attempts": schedule.tries,
        "run_id": str(schedule.run) if fired else None,
        "reason": schedule.reason,
    }
