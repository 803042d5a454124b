"""What machines and bridges tell the agent: notices, events, actions, and messages of a person over a bridge."""

from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.enclosed_files import EnclosedFiles
from services.gateway.edge.front_desk import FrontDesk, Outcome
from services.gateway.edge.hang_up import PREFER
from services.gateway.edge.intake import Intake, Read, queued_at
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.event_request import (
    AgentActionBody,
    InboundBody,
    NotifyBody,
    SystemEventBody,
    UnknownSender,
    read_agent_action,
    read_inbound,
    read_notify,
    read_system_event,
)
from services.gateway.rules.event_shapes import AcceptedReply, SenderProblem
from services.gateway.rules.incoming import Incoming
from services.gateway.rules.lucyd_dialect import told
from services.gateway.rules.reply_shapes import ChatReply, Problem, QuestionReply, RunProblem
from shared.domain.api_key import ApiKey
from shared.domain.run import Source
from shared.errors import LucydError

TAG = "messages"
NO_WHATSAPP = "There is no bridge for WhatsApp."


@dataclass(frozen=True, slots=True)
class NotifyApi:
    """``/api/v1/notify``, ``/api/v1/system/event``, ``/api/v1/agent/action`` and ``/api/v1/inbound/...``.

    ``person`` is whom bridges write for, ``primary`` whose conversation the operator's notices join that name nobody;
    ``excuse`` is what bridges pass on when a run fails.
    """

    intake: Intake
    desk: FrontDesk
    bodies: Bodies
    person: str
    primary: str
    excuse: str
    enclosed: EnclosedFiles

    def operations(self) -> list[Operation]:
        """What they do."""
        taken = {202: Reply("it is stored, and will be read", AcceptedReply)}
        pinned = {**taken, 400: Reply("it can't be taken, or its sender may not write here", SenderProblem)}
        replied = {
            200: Reply("the run has ended", ChatReply),
            202: Reply("the run asks its person, and waits", QuestionReply),
            408: Reply("the reply was not there in time; the run goes on", RunProblem),
        }
        return [
            Operation(
                "POST", "/api/v1/notify", self.notify, "chat", "tell the agent what happened",
                taken, body=NotifyBody, counts_as="work", repeatable=True, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/system/event", self.system_event, "admin", "an event of the house",
                pinned, body=SystemEventBody, counts_as="work", repeatable=True, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/agent/action", self.agent_action, "chat", "what an agent did",
                pinned, body=AgentActionBody, counts_as="work", repeatable=True, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/inbound/telegram", self.inbound_telegram, "chat", "a message over a Telegram bridge",
                replied, body=InboundBody, counts_as="work", repeatable=True, tag=TAG, headers=PREFER,
            ),
            Operation(
                "POST", "/api/v1/inbound/email", self.inbound_email, "chat", "a message over an email bridge",
                replied, body=InboundBody, counts_as="work", repeatable=True, tag=TAG, headers=PREFER,
            ),
            Operation(
                "POST", "/api/v1/inbound/whatsapp", self.inbound_whatsapp, "chat", "not there",
                {501: Reply("there is no such bridge", Problem)}, counts_as="work", tag=TAG,
            ),
        ]  # fmt: skip

    async def notify(self, request: Request) -> Response:
        """A notice for somebody's conversation."""
        return await self._take(request, lambda body, key: read_notify(body, key=key, primary=self.primary))

    async def system_event(self, request: Request) -> Response:
        """An event of the house."""
        return await self._take(request, lambda body, key: read_system_event(body, key=key))

    async def agent_action(self, request: Request) -> Response:
        """What an agent did."""
        return await self._take(request, lambda body, key: read_agent_action(body, key=key))

    async def inbound_telegram(self, request: Request) -> Response:
        """A person's message over a Telegram bridge."""
        return await self._converse(request, "telegram")

    async def inbound_email(self, request: Request) -> Response:
        """A person's message over an email bridge."""
        return await self._converse(request, "user")

    async def inbound_whatsapp(self, _: Request) -> Response:
        """The original names it and never had it."""
        return self.bodies.json({"error": NO_WHATSAPP}, 501)

    async def _take(self, request: Request, read: Read) -> Response:
        try:
            with await self.intake.receive(request, read) as message:
                accepted = await message.accept()
        except UnknownSender as fault:
            return self.bodies.json({"error": str(fault), "allowed": list(fault.allowed)}, 400)
        except LucydError as fault:
            return self.bodies.error(fault)
        run = accepted.run
        return self.bodies.json({"accepted": True, "queued_at": queued_at(run), "run_id": str(run)}, 202)

    async def _converse(self, request: Request, source: Source) -> Response:
        def read(body: object, key: ApiKey) -> Incoming:
            return read_inbound(body, source=source, person=self.person, key=key)

        message = await self.intake.receive(request, read)
        return await self.desk.answer(message, request, self._told, within=self.intake.manner.wait)

    async def _told(self, run: UUID, outcome: Outcome) -> Response:
        reply, status = told(run, outcome)
        if "error" in reply and status == 200:
            reply["reply"] = self.excuse  # a bridge passes on what it finds here
        await self.enclosed.put_into(reply)
        return self.bodies.json(reply, status)
