"""A message that somebody has sent to a person, over the bridges, without a run."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid5

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.records_api import own
from services.gateway.edge.repeats import Answered, Repeats, read_wishes
from services.gateway.ports import Outbox
from services.gateway.rules.chat_request import storable
from services.gateway.rules.outbound_request import OutboundBody, OutboundProblem, OutboundReply
from services.gateway.rules.reply_shapes import Problem
from services.gateway.rules.request_body import read_as
from shared.domain.delivery import LONGEST_TELEGRAM_TEXT, parts
from shared.errors import BadInput, LucydError, NotFound, TryLater
from shared.ids import new_id
from shared.ports.clock import Clock

WITHIN = timedelta(seconds=10)
LOOK_EVERY = timedelta(milliseconds=200)
NO_BRIDGE = "no bridge of this channel is running; nothing was sent"
REFUSED = "the channel has refused it"
IN_DOUBT = "nobody can tell whether it has arrived"


@dataclass(frozen=True, slots=True)
class OutboundApi:
    """``/api/v1/outbound/send``."""

    outbox: Outbox
    repeats: Repeats
    bodies: Bodies
    clock: Clock

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
            body = await read_wishes(request)
            asked = read_as(OutboundBody, body)

            async def send(work: UUID | None) -> Answered:
                conversation = await self._place(asked, request)
                return await self._send(asked, conversation, work or new_id())

            return await self.repeats.once(request, body, send)
        except LucydError as fault:
            return self.bodies.error(fault)

    async def _place(self, asked: OutboundBody, request: Request) -> str:
        found = await self.outbox.places(asked.channel, asked.chat, own(request), limit=2)
        if not found:
            raise NotFound("nobody has written from such a chat yet" if asked.chat else "nobody has written there yet")
        if len(found) > 1:
            raise BadInput('several chats may be meant; "chat" must say which one')
        return found[0]

    async def _send(self, asked: OutboundBody, conversation: str, work: UUID) -> Answered:
        pieces = [
            (uuid5(work, str(at)), text)
            for at, text in enumerate(parts(storable(asked.text), limit=LONGEST_TELEGRAM_TEXT))
        ]
        if not await self.outbox.send_out(conversation, asked.channel, pieces):
            raise TryLater(NO_BRIDGE, after=5.0)
        ids = [id for id, _ in pieces]
        told = {"conversation": conversation, "deliveries": [str(id) for id in ids]}
        until = self.clock.monotonic() + WITHIN.total_seconds()
        while True:
            states = set(await self.outbox.states(ids))
            if states & {"failed", "in_doubt", "dropped"}:
                why = IN_DOUBT if "in_doubt" in states else REFUSED
                return Answered({"error": why, "delivered": False, **told}, 502)
            if states == {"sent"}:
                return Answered({"delivered": True, **told})
            if self.clock.monotonic() >= until:
                return Answered({"delivered": False, **told}, 202, is_last=False)
            await self.clock.sleep(LOOK_EVERY.total_seconds())
