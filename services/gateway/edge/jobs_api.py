"""Background jobs that somebody asks for, and what became of them."""

import re
from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.repeats import Answered, Repeats, read_wishes
from services.gateway.rules.job_request import (
    CONSOLIDATE,
    INDEX,
    JOB_ID,
    MAINTAIN,
    ROUTES,
    Errand,
    IndexBody,
    NoWishes,
    job_body,
    job_id,
    repeated_job_id,
)
from services.gateway.rules.record_shapes import IndexStatusReply, JobReply, QueuedReply
from services.gateway.rules.reply_shapes import Problem
from services.gateway.rules.request_body import RequestBody, read_as
from shared.errors import LucydError, NotFound
from shared.ports.clock import Clock
from shared.ports.queues import JobDesk
from shared.ports.records import Records

TAG = "jobs"


@dataclass(frozen=True, slots=True)
class JobsApi:
    """``/api/v1/index``, ``/api/v1/consolidate``, ``/api/v1/maintain`` and ``/api/v1/jobs/{id}``."""

    desk: JobDesk
    records: Records
    clock: Clock
    bodies: Bodies
    repeats: Repeats

    def operations(self) -> list[Operation]:
        """What they do."""
        queued = {202: Reply("it stands in its queue", QueuedReply)}
        return [
            Operation(
                "POST", "/api/v1/index", self.index, "admin", "index the workspace",
                queued, body=IndexBody, may_be_empty=True, counts_as="work", repeatable=True, tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/index/status", self.index_status, "read", "what is indexed",
                {200: Reply("as far as it is known", IndexStatusReply)}, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/consolidate", self.consolidate, "admin", "consolidate sessions",
                queued, body=NoWishes, may_be_empty=True, counts_as="work", repeatable=True, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/maintain", self.maintain, "admin", "tidy the store up",
                queued, body=NoWishes, may_be_empty=True, counts_as="work", repeatable=True, tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/jobs/{id}", self.job, "admin", "what became of a job",
                {200: Reply("it", JobReply), 404: Reply("no such job", Problem)},
                parts={"id": {"type": "string", "pattern": JOB_ID}}, tag=TAG,
            ),
        ]  # fmt: skip

    async def index(self, request: Request) -> Response:
        """Index the workspace."""
        return await self._ask_for(INDEX, request, IndexBody)

    async def consolidate(self, request: Request) -> Response:
        """Consolidate what waits for it."""
        return await self._ask_for(CONSOLIDATE, request, NoWishes)

    async def maintain(self, request: Request) -> Response:
        """Tidy the store up."""
        return await self._ask_for(MAINTAIN, request, NoWishes)

    async def _ask_for(self, errand: Errand, request: Request, kind: type[RequestBody]) -> Response:
        try:
            body = await read_wishes(request)
            full = getattr(read_as(kind, body), "full", False)

            async def enqueue(work: UUID | None) -> Answered:
                return await self._enqueue(errand, work, full=full)

            return await self.repeats.once(request, body, enqueue)
        except LucydError as fault:
            return self.bodies.error(fault)

    async def _enqueue(self, errand: Errand, work: UUID | None, *, full: bool) -> Answered:
        now = self.clock.now()
        id = job_id(errand, now, full=full) if work is None else repeated_job_id(errand, work)
        argument = {"asked": now.isoformat(), "full": full}
        await self.desk.enqueue(errand.queue, errand.job, argument, job_id=id)
        return Answered({"status": "queued", "job_id": id}, 202)

    async def job(self, request: Request) -> Response:
        """What became of a job; 404 for ids that are no job of these queues."""
        try:
            id = request.path_params["id"]
            job = await self.desk.job(id) if re.fullmatch(JOB_ID, id) else None
            if job is None or job.queue not in ROUTES:
                raise NotFound("no such job")
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(job_body(job))

    async def index_status(self, _: Request) -> Response:
        """What the indexer knows; what waits is not counted."""
        try:
            known = await self.records.files()
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(
            {
                "db_exists": True,
                "indexed_files": known.count,
                "total_chunks": known.chunks,
                "pending_files": None,
                "stale_files": None,
                "last_read_at": known.read_at.isoformat() if known.read_at else None,
            }
        )
