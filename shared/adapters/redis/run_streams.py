"""Reads run streams and futures."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast
from uuid import UUID

import orjson

from shared.adapters.redis.connection import COMMAND_TIMEOUT, Ask, Redis, send_all
from shared.adapters.redis.lines import Command
from shared.errors import TryLater
from shared.messages import routes
from shared.messages.run_events import EventType, RunEvent


class RedisRunStreams:
    """``RunStreams`` of the ports."""

    def __init__(self, client: Redis, *, ask: Ask | None = None) -> None:
        self._ask = ask or partial(send_all, client)

    async def read(self, run: UUID, *, after: str, limit: int = 500) -> Sequence[RunEvent]:
        """See ``RunStreams.read``."""
        command: Command = ("XRANGE", routes.run_events(run), f"({after}", "+", "COUNT", limit)
        (entries,) = await self._ask([command], COMMAND_TIMEOUT)
        _raise_if_refused(entries)
        return [_event(entry, words) for entry, words in entries]

    async def results(self, runs: Sequence[UUID]) -> Mapping[UUID, Mapping[str, Any]]:
        """See ``RunStreams.results``."""
        if not runs:
            return {}
        (texts,) = await self._ask([("MGET", *map(routes.run_result, runs))], COMMAND_TIMEOUT)
        _raise_if_refused(texts)
        return {run: orjson.loads(text) for run, text in zip(runs, texts, strict=True) if text is not None}


def _raise_if_refused(reply: object) -> None:
    if isinstance(reply, Exception):
        raise TryLater("Redis refused to tell", after=0.5) from reply


def _event(entry: str, words: Sequence[str]) -> RunEvent:
    fields = dict(zip(words[::2], words[1::2], strict=True))
    return RunEvent(entry, cast("EventType", fields["type"]), orjson.loads(fields["data"]), fields.get("after"))
