"""What every route does that takes a message in: bounded reading, the idempotency key, accept."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from starlette.requests import Request

from services.gateway.edge.bodies import read_json
from services.gateway.edge.chat_api import ChatManner
from services.gateway.edge.door import key_of
from services.gateway.rules.attachments import read_attachments
from services.gateway.rules.chat_request import read_idempotency_key, read_traceparent
from services.gateway.rules.event_request import Incoming
from shared.actions.accept_message import Door, accept_message
from shared.domain.run import Accepted, IdempotencyKey, NewRun
from shared.ids import new_id
from shared.ports.bus import WakeUps
from shared.ports.control import Control


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes messages in as ``manner`` says."""

    inbox: Door
    wake_ups: WakeUps
    control: Control
    manner: ChatManner

    async def read(self, request: Request) -> Any:
        """The body's JSON. Raises ``BadInput``."""
        return await read_json(request, at_most=self.manner.body_bytes)

    def new_run(self, request: Request, body: object, incoming: Incoming) -> NewRun:
        """The run that is to answer; it is stored by ``accept``. Raises ``BadInput``."""
        manner = self.manner
        key = read_idempotency_key(request.headers.get("idempotency-key"))
        idempotency = None
        if key is not None:
            digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()
            scope = f"{key_of(request).name} {request.url.path}"
            idempotency = IdempotencyKey(scope, key, digest, manner.key_lives)
        return NewRun(
            id=new_id(),
            address=incoming.address,
            text=incoming.text,
            source=incoming.source,
            tier=incoming.tier,
            sender=incoming.sender,
            details=incoming.meta,
            idempotency=idempotency,
            deadline=manner.deadline,
            capacity=manner.capacity,
            traceparent=read_traceparent(request.headers.get("traceparent")),
            webhook=manner.webhook,
            attachments=read_attachments(incoming.files, manner.attachments),
            readable=manner.readable,
        )

    async def accept(self, new: NewRun) -> Accepted:
        """See ``accept_message``."""
        return await accept_message(new, inbox=self.inbox, wake_ups=self.wake_ups, control=self.control)


def queued_at(run: UUID) -> str:
    """When the run was made, as its id tells: the same for all who ask with one idempotency key."""
    at = datetime.fromtimestamp((run.int >> 80) / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
