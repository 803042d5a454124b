"""How much waits on the roads over Redis, for the figures of operators."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shared.adapters.redis.connection import Redis, bounded
from shared.messages import routes

PATIENCE = timedelta(seconds=1)
CHANNELS = ("telegram",)
JOBS = (routes.INDEX_QUEUE, routes.CONSOLIDATE_QUEUE, routes.MAINTAIN_QUEUE)


class RedisQueueDepths:
    """``Stock`` of the gateway's ports: ``queue_depth`` by the key of the stream, or the name of the queue."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def figures(self) -> Mapping[str, Mapping[str, int]]:
        """See ``Stock.figures``."""
        streams = [routes.INBOUND, *map(routes.outbound, CHANNELS)]
        pipeline: Any = self._client.pipeline(transaction=False)
        for stream in streams:
            pipeline.xlen(stream)
        for queue in JOBS:
            pipeline.llen(f"rq:queue:{queue}")
        lengths = await bounded(pipeline.execute(), PATIENCE)
        return {"queue_depth": dict(zip([*streams, *JOBS], map(int, lengths), strict=True))}
