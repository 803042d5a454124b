"""Chat: a message in, the reply out, at once or as it is written."""

from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.follow_run import BEGINNING
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import key_of, scope_of
from services.gateway.edge.enclosed_files import EnclosedFiles
from services.gateway.edge.event_stream import EventStream, Seat
from services.gateway.edge.front_desk import FrontDesk, Outcome
from services.gateway.edge.hang_up import PREFER
from services.gateway.edge.intake import Intake, Received
from services.gateway.edge.operation import RUN_PARTS, Operation, Reply
from services.gateway.rules.chat_request import LAST_EVENT_ID, ChatBody, EventsQuery, read_chat, read_last_event_id
from services.gateway.rules.incoming import Incoming
from services.gateway.rules.lucyd_dialect import run_body, told
from services.gateway.rules.reply_shapes import ChatReply, Problem, QuestionReply, RunProblem, RunReply
from shared.domain.api_key import ApiKey
from shared.domain.run import Accepted
from shared.errors import BadInput, LucydError, NotFound
from shared.messages.run_events import ACCEPTED_ID, RunEvent, accepted_event
from shared.ports.history import History, StoredRun

EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class ChatApi:
    """The routes under ``/api/v1/chat`` and ``/api/v1/runs``."""

    intake: Intake
    desk: FrontDesk
    history: History
    bodies: Bodies
    enclosed: EnclosedFiles

    def operations(self) -> list[Operation]:
        """What they do."""
        none = {404: Reply("no such run", Problem)}
        events = Reply("its events, until the last one", media=EVENTS)
        return [
            Operation(
                "POST", "/api/v1/chat", self.chat, "chat", "send a message, await the reply",
                {
                    200: Reply("the run has ended", ChatReply),
                    202: Reply("the run asks its person, and waits", QuestionReply),
                    408: Reply("the reply was not there in time; the run goes on", RunProblem),
                },
                body=ChatBody, counts_as="work", repeatable=True, tag="chat", headers=PREFER,
            ),
            Operation(
                "POST", "/api/v1/chat/stream", self.chat_stream, "chat", "send a message, follow its run",
                {200: events}, body=ChatBody, counts_as="work", repeatable=True, tag="chat", headers=PREFER,
            ),
            Operation(
                "GET", "/api/v1/runs/{id}", self.run, "chat", "what is known of a run",
                {200: Reply("it", RunReply), **none}, parts=RUN_PARTS, or_needs="read",
            ),
            Operation(
                "GET", "/api/v1/runs/{id}/events", self.run_events, "chat", "follow a run",
                {200: events, **none}, parts=RUN_PARTS, query=EventsQuery, or_needs="read",
                headers={"Last-Event-ID": {"type": "string", "pattern": LAST_EVENT_ID}},
            ),
        ]  # fmt: skip

    async def chat(self, request: Request) -> Response:
        """Send a message and await the reply; 408 names the run, which goes on."""
        message = await self._received(request)
        return await self.desk.answer(message, request, self._told, within=self.intake.manner.wait)

    async def _told(self, run: UUID, outcome: Outcome) -> Response:
        reply, status = told(run, outcome)
        await self.enclosed.put_into(reply)
        return self.bodies.json(reply, status)

    async def chat_stream(self, request: Request) -> Response:
        """Send a message and follow its run."""
        return await self.desk.stream(await self._received(request), request, self._followed)

    def _followed(self, accepted: Accepted, seat: Seat) -> Response:
        # Told by ourselves: a client must know its run's id also when Redis is away.
        first = accepted_event(accepted.run, accepted.conversation)
        return self._follow(accepted.run, ACCEPTED_ID, seat, first=first)

    async def run(self, request: Request) -> Response:
        """What is known of a run."""
        try:
            return self.bodies.json(run_body(await self._find(request)))
        except LucydError as fault:
            return self.bodies.error(fault)

    async def run_events(self, request: Request) -> Response:
        """Follow a run, from the event after ``Last-Event-ID`` on."""
        try:
            run = await self._find(request)
            given = request.headers.get("last-event-id"), request.query_params.get("after")
            header, query = map(read_last_event_id, given)
            after = header or query or BEGINNING
            seat = self.desk.seats.take(key_of(request))
        except LucydError as fault:
            return self.bodies.error(fault)
        return self._follow(run.id, after, seat)

    def _follow(self, run: UUID, after: str, seat: Seat, *, first: RunEvent | None = None) -> Response:
        desk = self.desk
        events = desk.events(run, after=after)
        return EventStream(events, clock=desk.clock, departure=desk.departure, seat=seat, first=first)

    async def _received(self, request: Request) -> Received:
        path = request.url.path.removesuffix("/stream")  # the two share their idempotency keys
        return await self.intake.receive(request, _read, repeats_at=path)

    async def _find(self, request: Request) -> StoredRun:
        try:
            run = await self.history.run(UUID(request.path_params["id"]))
        except ValueError as fault:
            raise BadInput("a run is named by its id") from fault
        if run is None or not scope_of(request.scope).covers(run.principal):
            raise NotFound("no such run")
        return run


def _read(body: object, key: ApiKey) -> Incoming:
    return read_chat(body, key=key)
