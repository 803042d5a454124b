"""Which jobs may be asked for, and how their ids are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import orjson
from pydantic import Field

from services.gateway.rules.request_body import RequestBody
from shared.messages import routes
from shared.ports.queues import Job

JOB_ID = r"^[A-Za-z0-9_-]{1,128}$"
FAILED = "The job failed; the log of its service has the reason."


class NoWishes(RequestBody):
    """There is nothing to choose."""


class IndexBody(RequestBody):
    """How much is indexed."""

    full: bool = Field(default=False, description="Also what has not changed, if that differs.")

    says: ClassVar[Mapping[str, str]] = {"full": '"full" must be true or false'}


@dataclass(frozen=True, slots=True)
class Errand:
    """A job that a person may ask for."""

    name: str
    queue: str
    job: str


INDEX = Errand("index", routes.INDEX_QUEUE, routes.INDEX_JOB)
CONSOLIDATE = Errand("consolidate", routes.CONSOLIDATE_QUEUE, routes.CONSOLIDATE_JOB)
MAINTAIN = Errand("maintain", routes.MAINTAIN_QUEUE, routes.MAINTAIN_JOB)
ROUTES = {errand.queue: errand for errand in (INDEX, CONSOLIDATE, MAINTAIN)}


def job_id(errand: Errand, at: datetime, *, full: bool = False) -> str:
    """One for each second: who asks twice in that time asks for one job."""
    return f"{errand.name}_asked_{at:%Y%m%dT%H%M%S}{'_full' if full else ''}"


def repeated_job_id(errand: Errand, work: UUID) -> str:
    """One for all who ask under one idempotency key."""
    return f"{errand.name}_asked_{work.hex}"


def job_body(job: Job) -> dict[str, Any]:
    """Body of GET /api/v1/jobs/{id}; of a failure no more than that, since its trace may hold anything."""
    return {
        "job_id": job.id,
        "queue": job.queue,
        "state": job.state,
        "enqueued_at": job.enqueued_at.isoformat() if job.enqueued_at else None,
        "ended_at": job.ended_at.isoformat() if job.ended_at else None,
        "result": _figures(job.result),
        "error": FAILED if job.state == "failed" else None,
    }


def _figures(result: str | None) -> dict[str, Any] | None:
    try:
        figures = orjson.loads(result or "null")
    except ValueError:
        return None
    return figures if isinstance(figures, dict) else None
