"""Work that is no message: asked for twice under one ``Idempotency-Key`` it is done once, and answered the same."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import ROOM, SMALL_BODY, Bodies, beside, parse_json, receive_body
from services.gateway.edge.door import key_of
from services.gateway.ports import Answers
from services.gateway.rules.chat_request import read_idempotency_key
from shared.domain.run import IdempotencyKey
from shared.ids import new_id
from shared.ports.clock import Clock

ANOTHER_WITHIN = timedelta(seconds=1)
"""What another gateway has begun is waited for this long before it is begun here, too."""

LOOK_EVERY = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it. ``is_last``: whoever asks again is told the same; else it is looked at anew."""

    body: Mapping[str, Any]
    status: int = 200
    is_last: bool = True


Work = Callable[[UUID | None], Awaitable[Answered]]
"""Does it; under an id, what was done under the same one before is not done again."""


async def read_wishes(request: Request, *, at_most: int = SMALL_BODY) -> Any:
    """The JSON of a small body; a request without any says the same as one with ``{}``. Raises as ``read_json``."""
    with ROOM.place() as place:
        body = await receive_body(request, place, at_most=at_most)
        return await beside(len(body), parse_json, body) if body else {}


@dataclass(frozen=True, slots=True)
class Repeats:
    """Keys are known for as long as ``lives`` says, each within its API key and route.

    Who asks while the work is under way waits for its answer: here for as long as it takes, and a while for another
    gateway, which may have died over it. Whoever is answered, it is the answer that was stored first.
    """

    answers: Answers
    bodies: Bodies
    lives: timedelta
    clock: Clock
    _under_way: dict[IdempotencyKey, asyncio.Task[Answered]] = field(default_factory=dict)

    async def once(self, request: Request, body: object, work: Work, *, size: int = 0) -> Response:
        """The answer of the work that ``body`` asks for. Raises what the work raises; then it may be asked for again.

        ``size`` is how many bytes the body came with: what is large is digested beside all else.
        Raises ``BadInput`` for a key that is none, ``Conflict`` for one that came with another body, ``TryLater``.
        """
        name = read_idempotency_key(request.headers.get("idempotency-key"))
        if name is None:
            return self._told(await work(None))
        digest = await beside(size, _digest, body)
        key = IdempotencyKey(f"{key_of(request).name} {request.url.path}", name, digest, self.lives)
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._done(key, work))
            task.add_done_callback(partial(self._forget, key))
        # Of those who wait one may be sent away; the others are answered all the same.
        return self._told(await asyncio.shield(task))

    async def _done(self, key: IdempotencyKey, work: Work) -> Answered:
        mine = new_id()
        id, known = await self.answers.begin(key, mine)
        until = self.clock.monotonic() + ANOTHER_WITHIN.total_seconds()
        while known is None and id != mine and self.clock.monotonic() < until:
            await self.clock.sleep(LOOK_EVERY.total_seconds())
            id, known = await self.answers.begin(key, mine)
        if known is None:
            answered = await work(id)
            if not answered.is_last:
                return answered
            known = await self.answers.end(key, {"body": answered.body, "status": answered.status})
        return Answered(known["body"], known["status"])

    def _forget(self, key: IdempotencyKey, task: asyncio.Task[Answered]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # whoever asked may be gone

    def _told(self, answered: Answered) -> Response:
        """In an order of its own: what is read from the store has lost the one that it was written in."""
        return self.bodies.json(dict(sorted(answered.body.items())), answered.status)


def _digest(body: object) -> bytes:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()
