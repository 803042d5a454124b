"""Work that is no message: asked for twice under one ``Idempotency-Key`` it is done once, and answered the same."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
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
    """Keys are known for as long as ``lives`` says, each within its API key and route."""

    answers: Answers
    bodies: Bodies
    lives: timedelta

    async def once(self, request: Request, body: object, work: Work) -> Response:
        """The answer of the work that ``body`` asks for. Raises what the work raises; then it may be asked for again.

        Raises ``BadInput`` for a key that is none, ``Conflict`` for one that came with another body, ``TryLater``.
        """
        name = read_idempotency_key(request.headers.get("idempotency-key"))
        if name is None:
            return self._told(await work(None))
        digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()
        key = IdempotencyKey(f"{key_of(request).name} {request.url.path}", name, digest, self.lives)
        id, known = await self.answers.begin(key, new_id())
        if known is not None:
            return self._told(Answered(known["body"], known["status"]))
        answered = await work(id)
        if answered.is_last:
            await self.answers.end(key, {"body": answered.body, "status": answered.status})
        return self._told(answered)

    def _told(self, answered: Answered) -> Response:
        return self.bodies.json(dict(answered.body), answered.status)
