"""Reads the monitor hashes of some workers."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.redis.connection import Redis, raise_if_refused, send_all
from shared.messages import routes
from shared.messages.worker_figures import FIELDS, WorkerFigures, figures_of

PATIENCE = timedelta(seconds=1)


class RedisColleagues:
    """``Colleagues`` of the ports: one pipeline, by name, for a search would walk through all keys."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def figures(self, workers: Sequence[UUID]) -> Mapping[UUID, WorkerFigures]:
        """See ``Colleagues.figures``."""
        if not workers:
            return {}
        keys = [routes.monitor_process("agent_worker", worker) for worker in workers]
        replies = await send_all(self._client, [("HMGET", key, *FIELDS) for key in keys], PATIENCE)
        raise_if_refused(replies)
        told = (figures_of(dict(zip(FIELDS, reply, strict=True))) for reply in replies)
        return {worker: figures for worker, figures in zip(workers, told, strict=True) if figures is not None}
