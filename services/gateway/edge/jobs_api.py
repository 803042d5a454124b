"""Background jobs that somebody asks for, and what became of them."""

import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies, read_json
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.job_request import (
    CONSOLIDATE,
    INDEX,
    JOB_ID,
    MAINTAIN,
    ROUTES,
    Errand,
    IndexBody,
    job_body,
    job_id,
)
from services.gateway.rules.record_shapes import IndexStatusReply, JobReply, QueuedReply
from services.gateway.rules.reply_shapes import Problem
from services.gateway.rules.request_body import read_as
from shared.errors import LucydError, NotFound
from shared.ports.clock import Clock
from shared.ports.queues import JobDesk
from shared.ports.records import Records

TAG = "jobs"
SMALL_BODY = 65_536


@dataclass(frozen=True, slots=True)
class JobsApi:
    """``/api/v1/index``, ``/api/v1/consolidate``, ``/api/v1/maintain`` and ``/api/v1/jobs/{id}``."""

    desk: JobDesk
    records: Records
    clock: Clock
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        queued = {202: Reply("it stands in its queue", QueuedReply)}
        return [
            Operation(
                "POST", "/api/v1/index", self.index, "admin", "index the workspace",
                queued, body=IndexBody, counts_as="work", tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/index/status", self.index_status, "read", "what is indexed",
                {200: Reply("as far as it is known", IndexStatusReply)}, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/consolidate", self.consolidate, "admin", "consolidate sessions",
                queued, counts_as="work", tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/maintain", self.maintain, "admin", "tidy the store up",
                queued, counts_as="work", tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/jobs/{id}", self.job, "admin", "what became of a job",
                {200: Reply("it", JobReply), 404: Reply("no such job", Problem)},
                parts={"id": {"type": "string", "pattern": JOB_ID}}, tag=TAG,
            ),
        ]  # fmt: skip

    async def index(self, request: Request) -> Response:
        """Index the workspace."""
        try:
            body = await read_json(request, at_most=SMALL_BODY)
            return await self._enqueue(INDEX, full=read_as(IndexBody, body).full)
        except LucydError as fault:
            return self.bodies.error(fault)

    async def consolidate(self, _: Request) -> Response:
        """Consolidate what waits for it."""
        return await self._enqueue(CONSOLIDATE)

    async def maintain(self, _: Request) -> Response:
        """Tidy the store up."""
        return await self._enqueue(MAINTAIN)

    async def _enqueue(self, errand: Errand, *, full: bool = False) -> Response:
        now = self.clock.now()
        id = job_id(errand, now, full=full)
        argument = {"asked": now.isoformat(), "full": full}
        try:
            await self.desk.enqueue(errand.queue, errand.job, argument, job_id=id)
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"status": "queued", "job_id": id}, 202)

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
        """What the indexer knows. Chunks there are none yet, and what waits is not counted."""
        try:
            known = await self.records.files()
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(
            {
                "db_exists": True,
                "indexed_files": known.count,
                "total_chunks": 0,
                "pending_files": None,
                "stale_files": None,
                "last_read_at": known.read_at.isoformat() if known.read_at else None,
            }
        )
