"""A message that somebody sends to a person, over the bridges: a run of its own, without a model."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies, beside, parse_json, receive_body
from services.gateway.edge.door import key_of
from services.gateway.edge.intake import Intake
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.repeats import Answered, Repeats
from services.gateway.ports import Outbox
from services.gateway.rules.attachments import read_attachments
from services.gateway.rules.outbound_request import OutboundBody, OutboundProblem, OutboundReply
from services.gateway.rules.reply_shapes import Problem
from services.gateway.rules.request_body import read_as
from shared.domain.attachment import Attachment, ReadableText
from shared.domain.contacts import Contacts
from shared.domain.delivery import Dispatch
from shared.domain.run import TERMINAL_STATES, NewRun
from shared.errors import BadInput, LucydError, NotFound, TryLater
from shared.ids import new_id
from shared.ports.clock import Clock
from shared.ports.records import Whose

LARGEST_TEXT = 524_288
"""Bytes of a body with the longest text, also where each of its characters is written as twelve."""

WITHIN = timedelta(seconds=10)
LOOK_EVERY = timedelta(milliseconds=200)
NO_BRIDGE = "no bridge of this channel is running; nothing was sent"
REFUSED = "the channel has refused it"
NOT_SENT = "it has ended and was not sent"
IN_DOUBT = "nobody can tell whether it has arrived"


@dataclass(frozen=True, slots=True)
class OutboundApi:
    """``/api/v1/outbound/send``."""

    outbox: Outbox
    intake: Intake
    repeats: Repeats
    bodies: Bodies
    clock: Clock
    contacts: Contacts

    def operations(self) -> list[Operation]:
        """What it does."""
        return [
            Operation(
                "POST", "/api/v1/outbound/send", self.send, "admin", "send a message to a person",
                {
                    200: Reply("the channel has it", OutboundReply),
                    202: Reply("it stands in its line, and will be sent", OutboundReply),
                    404: Reply("there is no such chat", Problem),
                    502: Reply("it was refused, or nobody knows whether it arrived", OutboundProblem),
                    503: Reply("no bridge is running; nothing was sent", Problem),
                },
                body=OutboundBody, counts_as="work", repeatable=True, tag="messages",
            )
        ]  # fmt: skip

    async def send(self, request: Request) -> Response:
        """Put it behind what was said in that chat so far, and wait until the channel has it."""
        try:
            with self.intake.room.place() as place:  # until it is told: whoever repeats it needs what it said
                at_most = max(LARGEST_TEXT, self.intake.manner.body_bytes)
                received = await receive_body(request, place, at_most=at_most)
                size = len(received)
                body, asked, files = await beside(size, self._understood, received)
                received.clear()

                async def send(work: UUID | None) -> Answered:
                    # What was accepted before is not judged anew: chats may have come or gone since then.
                    begun = await self.outbox.dispatch(work) if work is not None else None
                    run = work or new_id()
                    if begun is None:
                        begun = await self._begin(asked, files, run, request)
                    return await self._told(begun, run)

                return await self.repeats.once(request, body, send, size=size)
        except LucydError as fault:
            return self.bodies.error(fault)

    def _understood(self, received: bytearray) -> tuple[Any, OutboundBody, Sequence[Attachment]]:
        body = parse_json(received) if received else {}
        asked = read_as(OutboundBody, body)
        return body, asked, read_attachments(asked.files(), self.intake.manner.attachments)

    async def _begin(self, asked: OutboundBody, files: Sequence[Attachment], run: UUID, request: Request) -> Dispatch:
        known = self.contacts.find(asked.chat) if asked.chat else None
        chat = known.place if known else asked.chat
        reached = Whose.within_reach(key_of(request).principal)
        found = await self.outbox.places(asked.channel, chat, reached, limit=2)
        if len(found) > 1:
            raise BadInput('several chats may be meant; "chat" must say which one')
        address = await self.outbox.address(found[0]) if found else None
        if address is None:
            raise NotFound("nobody has written from such a chat yet" if asked.chat else "nobody has written there yet")
        if not await self.outbox.is_led(asked.channel):
            raise TryLater(NO_BRIDGE, after=5.0)
        manner = self.intake.manner
        await self.intake.accept(
            NewRun(
                id=run, address=address, text=asked.words(), kind="outbound", source="http",
                sender=key_of(request).name, deadline=manner.deadline, capacity=manner.capacity,
                attachments=files, readable=ReadableText(0),
            )
        )  # fmt: skip
        return Dispatch(address.conversation, "accepted")

    async def _told(self, dispatch: Dispatch, run: UUID) -> Answered:
        """What comes of it, or that it still stands in its line."""
        until = self.clock.monotonic() + WITHIN.total_seconds()
        while True:
            with contextlib.suppress(TryLater):  # it is accepted, and would be told again by who is told to come again
                dispatch = await self.outbox.dispatch(run) or dispatch
            told = {"conversation": dispatch.conversation, "deliveries": [str(id) for id in dispatch.deliveries]}
            states = set(dispatch.states)
            if why := _problem(dispatch):
                return Answered({"error": why, "delivered": False, **told}, 502)
            if states == {"sent"}:
                return Answered({"delivered": True, **told})
            if self.clock.monotonic() >= until:
                return Answered({"delivered": False, **told}, 202, is_last=False)
            await self.clock.sleep(LOOK_EVERY.total_seconds())


def _problem(dispatch: Dispatch) -> str | None:
    states = set(dispatch.states)
    if states & {"failed", "in_doubt", "dropped"}:
        return IN_DOUBT if "in_doubt" in states else REFUSED
    if dispatch.state in TERMINAL_STATES and not states:
        return dispatch.error or NOT_SENT
    return None
