"""Reads run streams and futures."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from shared.adapters.redis.connection import COMMAND_TIMEOUT, Redis, bounded
from shared.messages import routes
from shared.messages.run_events import RunEvent


class RedisRunStreams:
    """``RunStreams`` of the ports."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def read(self, run: UUID, *, after: str, limit: int = 500) -> Sequence[RunEvent]:
        """See ``RunStreams.read``."""
        entries = await bounded(
            self._client.xrange(routes.run_events(run), min=f"({after}", max="+", count=limit), COMMAND_TIMEOUT
        )
        return [
            RunEvent(entry, fields["type"], orjson.loads(fields["data"]), fields.get("after"))
            for entry, fields in entries
        ]

    async def results(self, runs: Sequence[UUID]) -> Mapping[UUID, Mapping[str, Any]]:
        """See ``RunStreams.results``."""
        if not runs:
            return {}
        texts = await bounded(self._client.mget([routes.run_result(run) for run in runs]), COMMAND_TIMEOUT)
        return {run: orjson.loads(text) for run, text in zip(runs, texts, strict=True) if text is not None}
