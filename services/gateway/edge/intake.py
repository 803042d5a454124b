"""What every route does that takes a message in: bounded reading, the idempotency key, accept."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import UUID

import orjson
from starlette.requests import Request

from services.gateway.edge.bodies import ROOM, Place, Room, beside, parse_json, receive_body
from services.gateway.edge.door import key_of
from services.gateway.rules.attachments import AttachmentLimits, read_attachments
from services.gateway.rules.chat_request import read_idempotency_key, read_traceparent
from services.gateway.rules.incoming import Incoming
from shared.actions.accept_message import Door, accept_message
from shared.domain.api_key import ApiKey
from shared.domain.attachment import Attachment, ReadableText
from shared.domain.run import Accepted, IdempotencyKey, NewRun
from shared.ids import new_id
from shared.ports.bus import WakeUps
from shared.ports.control import Control

Read = Callable[[object, ApiKey], Incoming]
"""What a body says, on behalf of a key. Raises ``BadInput``. It may be called in a thread."""


@dataclass(frozen=True, slots=True)
class ChatManner:
    """How long a caller is kept waiting, how large a body may be, how long a run may take and how many may queue.

    ``webhook`` names where ends are told, if anywhere; ``readable`` is which attachments are read to the model as text.
    """

    wait: timedelta
    body_bytes: int
    deadline: timedelta
    capacity: int
    key_lives: timedelta
    webhook: str | None = None
    attachments: AttachmentLimits = field(default_factory=AttachmentLimits)
    readable: ReadableText = field(default_factory=ReadableText)


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes messages in as ``manner`` says; what they hold meanwhile is bounded by the ``room``."""

    inbox: Door
    wake_ups: WakeUps
    control: Control
    manner: ChatManner
    room: Room = ROOM

    async def receive(self, request: Request, read: Read, *, repeats_at: str | None = None) -> "Received":
        """The message that this request brings; nothing is accepted yet, and somebody must ``leave`` it.

        ``repeats_at``: the path within which an idempotency key is known, where that is not the request's own. Raises
        what ``read_json`` and ``read`` do.
        """
        place = self.room.place()
        try:
            return Received(await self._new_run(request, read, repeats_at or request.url.path, place), self, place)
        except BaseException:
            place.leave()
            raise

    async def _new_run(self, request: Request, read: Read, path: str, place: Place) -> NewRun:
        body = await receive_body(request, place, at_most=self.manner.body_bytes)
        return await beside(len(body), self._understood, request, body, read, path)

    def _understood(self, request: Request, body: bytearray, read: Read, path: str) -> NewRun:
        said = parse_json(body)
        idempotency = self.idempotency(request, path, said)
        incoming = read(said, key_of(request))
        attachments = read_attachments(incoming.files, self.manner.attachments)
        return self.run_of(request, incoming, attachments, idempotency)

    def idempotency(self, request: Request, path: str, said: object) -> IdempotencyKey | None:
        """The key that this request came with, known within ``path``; ``said`` is what must be the same whenever it
        comes again. Raises ``BadInput``."""
        key = read_idempotency_key(request.headers.get("idempotency-key"))
        if key is None:
            return None
        digest = hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).digest()
        return IdempotencyKey(f"{key_of(request).name} {path}", key, digest, self.manner.key_lives)

    def run_of(
        self,
        request: Request,
        incoming: Incoming,
        attachments: Sequence[Attachment],
        idempotency: IdempotencyKey | None,
        *,
        id: UUID | None = None,
    ) -> NewRun:
        """The run that is to answer ``incoming``, as ``manner`` says."""
        manner = self.manner
        return NewRun(
            id=id or new_id(),
            address=incoming.address,
            text=incoming.text,
            source=incoming.source,
            tier=incoming.tier,
            sender=incoming.sender,
            details=incoming.meta,
            when_busy=incoming.when_busy,
            idempotency=idempotency,
            deadline=manner.deadline,
            capacity=manner.capacity,
            traceparent=read_traceparent(request.headers.get("traceparent")),
            webhook=manner.webhook,
            attachments=attachments,
            readable=manner.readable,
        )

    async def accept(self, new: NewRun) -> Accepted:
        """See ``accept_message``."""
        return await accept_message(new, inbox=self.inbox, wake_ups=self.wake_ups, control=self.control)


class Received:
    """A message that has come whole and can be taken, and its place in the room.

    Once it is accepted nothing of it is held here: the wait for a reply may be long, and many may wait.
    """

    __slots__ = ("_intake", "_new", "_place", "run")

    def __init__(self, new: NewRun, intake: Intake, place: Place) -> None:
        self.run = new.id
        self._new: NewRun | None = new
        self._intake = intake
        self._place = place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    async def accept(self) -> Accepted:
        """Store it, once; see ``accept_message``."""
        assert self._new is not None  # noqa: S101 - it is accepted once
        try:
            return await self._intake.accept(self._new)
        finally:
            self.leave()

    def leave(self) -> None:
        """Let go of it. Again does nothing."""
        self._new = None
        self._place.leave()


def queued_at(run: UUID) -> str:
    """When the run was made, as its id tells: the same for all who ask with one idempotency key."""
    at = datetime.fromtimestamp((run.int >> 80) / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
