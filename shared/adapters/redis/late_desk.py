"""The queues of jobs for a service that seldom needs them: RQ is imported when the first is asked for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any

from shared.ports.queues import Job, JobDesk


class LateDesk:
    """``JobDesk`` of the ports, opened at the first use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._desk: JobDesk | None = None
        self._opening = asyncio.Lock()

    async def enqueue(self, queue: str, job: str, argument: Mapping[str, Any], *, job_id: str) -> bool:
        """See ``Queues.enqueue``."""
        return await (await self._open()).enqueue(queue, job, argument, job_id=job_id)

    async def job(self, job_id: str) -> Job | None:
        """See ``JobDesk.job``."""
        return await (await self._open()).job(job_id)

    async def close(self) -> None:
        """Close what was opened, if anything was."""
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    async def _open(self) -> JobDesk:
        async with self._opening:
            if self._desk is None:
                # In a thread: the import takes a tenth of a second, and nobody else shall wait for it.
                module = await asyncio.to_thread(import_module, "shared.adapters.redis.job_desk")
                queues = import_module("shared.adapters.redis.queues")
                self._client = queues.blocking_client(self._url)
                self._desk = module.RqDesk(self._client)
            return self._desk


@contextlib.asynccontextmanager
async def open_late_desk(url: str) -> AsyncIterator[LateDesk]:
    """A desk for as long as the block lasts; nothing is opened yet."""
    desk = LateDesk(url)
    try:
        yield desk
    finally:
        await desk.close()
