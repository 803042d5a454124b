"""What became of jobs, asked of RQ."""

import asyncio

import redis
from rq.exceptions import NoSuchJobError
from rq.job import Job as RqJob
from rq.job import JobStatus
from rq.serializers import JSONSerializer

from shared.adapters.redis.connection import faults_as_try_later
from shared.adapters.redis.queues import RqQueues
from shared.ports.queues import Job, JobState

STATES: dict[JobStatus, JobState] = {
    JobStatus.STARTED: "started",
    JobStatus.FINISHED: "finished",
    JobStatus.FAILED: "failed",
    JobStatus.STOPPED: "failed",
    JobStatus.CANCELED: "failed",
}
"""In our words; whatever else it says, it still waits."""


class RqDesk(RqQueues):
    """``JobDesk`` of the ports."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client)
        self._line = client

    async def job(self, job_id: str) -> Job | None:
        """See ``JobDesk.job``."""
        with faults_as_try_later():
            return await asyncio.to_thread(self._job, job_id)

    def _job(self, job_id: str) -> Job | None:
        try:
            job = RqJob.fetch(job_id, connection=self._line, serializer=JSONSerializer)
        except NoSuchJobError:
            return None
        state = STATES.get(job.get_status(refresh=False), "queued")
        result = job.return_value() if state == "finished" else None
        return Job(
            job.id, job.origin, state, job.enqueued_at, job.ended_at, result if isinstance(result, str) else None
        )
