"""Does RQ's jobs inside one of our own processes: in a thread, without fork, without signals of its own."""

import asyncio
import logging
import threading
import time
from collections.abc import Collection, Mapping
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import structlog
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import DequeueTimeout, DeserializationError, NoSuchJobError
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.timeouts import TimerDeathPenalty
from rq.worker import WorkerStatus

from shared.adapters.redis.queues import blocking_client
from shared.errors import LucydError, TryLater

log = structlog.get_logger(__name__)

LISTEN_FOR = 1
"""Seconds of one blocking read; so long may it take until somebody who only waits hears that he shall stop."""

SEEN_FOR = 60
"""Seconds after which RQ's tools no longer show a worker that died."""

SEEN_EVERY = 10.0
"""Seconds; so often an idle worker tells RQ's tools that it is there."""

FINISH_WITHIN = timedelta(seconds=20)
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0


class JobWorker:
    """Serves queues until stopped. ``jobs`` maps a queue to the names that may be called from it: whoever can write to
    Redis must not be able to call anything else."""

    def __init__(self, redis_url: str, *, name: str, jobs: Mapping[str, Collection[str]]) -> None:
        self._redis_url = redis_url
        self._name = name
        self._jobs = jobs
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_hand = ""
        self._done = 0
        self._pause = FIRST_PAUSE
        self._seen_at = 0.0

    @property
    def vitals(self) -> Mapping[str, str]:
        """The job in hand (its id, or empty) and how many were done; for the monitor."""
        return {"job": self._in_hand, "jobs_done": str(self._done)}

    async def run(self) -> None:
        """Work until stopped or cancelled; Redis may come and go meanwhile."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            try:
                self._work()
            finally:
                loop.call_soon_threadsafe(ended.set)

        # A daemon, since a job that ignores its time limit must not keep the process from ending.
        self._thread = threading.Thread(target=copy_context().run, args=(work,), name="jobs", daemon=True)
        self._thread.start()
        try:
            await ended.wait()
        finally:
            self._stop.set()

    async def stop(self, within: timedelta = FINISH_WITHIN) -> None:
        """Take no more jobs and wait for the one in hand; when that takes too long, another worker does it anew.

        This process must end soon then, for the job goes on in it until then.
        """
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, within.total_seconds())
            if self._thread.is_alive() and (job := self._in_hand):
                log.warning("job_cut_off", job=job)
                try:
                    await asyncio.to_thread(self._put_back, job)
                except (RedisError, OSError, NoSuchJobError) as fault:
                    log.warning("job_not_put_back", job=job, error=type(fault).__name__)

    def _put_back(self, name: str) -> None:
        with blocking_client(self._redis_url) as client:
            job = Job.fetch(name, connection=client, serializer=JSONSerializer)
            if job.get_status() is not JobStatus.STARTED:
                return  # it has ended in this moment
            queue = Queue(job.origin, connection=client, serializer=JSONSerializer)
            ours = job.get_executions()
            queue.enqueue_job(job, at_front=True)
            for execution in ours:
                queue.started_job_registry.remove_execution(execution)

    def _work(self) -> None:
        logging.getLogger("rq.worker").setLevel(logging.WARNING)  # it sets itself to INFO and says each step
        while not self._stop.is_set():
            try:
                self._serve()
            except (RedisError, OSError) as fault:
                log.warning("job_queue_away", error=type(fault).__name__)
            except Exception:  # a job's own faults are recorded by RQ; nothing else may end this thread either
                log.exception("job_worker_stumbled")
            self._stop.wait(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _serve(self) -> None:
        with blocking_client(self._redis_url) as client:
            queues = [Queue(name, connection=client, serializer=JSONSerializer) for name in self._jobs]
            worker = _QuietWorker(
                queues,
                name=self._name,
                connection=client,
                serializer=JSONSerializer,
                worker_ttl=SEEN_FOR,
                log_job_description=False,
            )
            client.delete(worker.key)  # ours from before the line broke; RQ takes it for another worker's
            self._seen_at = time.monotonic() - SEEN_EVERY
            worker.register_birth()  # type: ignore[no-untyped-call]
            worker.set_state(WorkerStatus.IDLE)
            log.debug("job_worker_listening", queues=list(self._jobs))
            try:
                while not self._stop.is_set():
                    self._take_one(worker)
                    self._pause = FIRST_PAUSE
            finally:
                worker.register_death()  # type: ignore[no-untyped-call]

    def _take_one(self, worker: "_QuietWorker") -> None:
        if time.monotonic() - self._seen_at >= SEEN_EVERY:
            worker.heartbeat()
            self._seen_at = time.monotonic()
        if worker.should_run_maintenance_tasks:
            worker.run_maintenance_tasks()  # type: ignore[no-untyped-call]
        try:
            found = Queue.dequeue_any(
                worker.queues,
                LISTEN_FOR,
                connection=worker.connection,
                job_class=worker.job_class,
                serializer=JSONSerializer,
                death_penalty_class=worker.death_penalty_class,
            )
        except DequeueTimeout:
            return
        if found is None:
            return
        job, queue = found
        if not self._is_allowed(job, queue):
            log.error("job_refused", queue=queue.name, job=job.id)
            worker.handle_job_failure(job, queue, exc_string="This queue does no job of that name.")
            if len(worker.queues) == 1:
                queue.intermediate_queue.remove(job.id)
            return
        self._in_hand = job.id
        try:
            worker.execute_job(job, queue)
        finally:
            self._in_hand = ""
            self._done += 1
        status = job.get_status(refresh=False)
        if status is not JobStatus.FAILED:  # that was told with its reason
            log.info("job_ended", queue=queue.name, job=job.id, status=str(status.value))

    def _is_allowed(self, job: Job, queue: Queue) -> bool:
        try:
            return job.func_name in self._jobs[queue.name]
        except DeserializationError:
            return False


class _QuietWorker(SimpleWorker):
    """A worker for a thread: its time limits come from a timer not from SIGALRM, its faults are events of our log."""

    death_penalty_class = TimerDeathPenalty

    @property
    def connection_timeout(self) -> int:
        """RQ lengthens a shorter socket timeout to this; ours outlasts the blocking read already."""
        return LISTEN_FOR + 2

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Tell why a job failed: in a sentence what we raise on purpose, with its traceback what nobody expected."""
        fault = exc_info[1] if len(exc_info) > 1 else None
        about = {"queue": job.origin, "job": job.id, "error": type(fault).__name__}
        match fault:
            case TryLater():
                log.warning("job_failed", **about, reason=str(fault))
            case LucydError():
                log.error("job_failed", **about, reason=" ".join(str(fault).splitlines()))
            case _:
                log.error("job_failed", **about, exc_info=exc_info)
