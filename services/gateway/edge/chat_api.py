"""Chat: a message in, the reply out, at once or as it is written."""

from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.follow_run import BEGINNING, follow_run
from services.gateway.actions.take_leave import Departure
from services.gateway.actions.wait_for_reply import Expected, WaitingRoom
from services.gateway.actions.watch_runs import RunWatch
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import scope_of
from services.gateway.edge.event_stream import EventStream, Seat, Seats
from services.gateway.edge.hang_up import PREFER, End, EndedWithItsClient, end_for_nobody, told_or_gone, wants_an_end
from services.gateway.edge.intake import ChatManner, Intake, Received
from services.gateway.edge.operation import RUN_PARTS, Operation, Reply
from services.gateway.rules.chat_request import LAST_EVENT_ID, ChatBody, EventsQuery, read_chat, read_last_event_id
from services.gateway.rules.incoming import Incoming
from services.gateway.rules.lucyd_dialect import chat_reply, question_reply, run_body
from services.gateway.rules.reply_shapes import ChatReply, Problem, QuestionReply, RunProblem, RunReply
from shared.domain.api_key import ApiKey
from shared.domain.run import Accepted, Question
from shared.errors import BadInput, LucydError, NotFound
from shared.messages.run_events import ACCEPTED_ID, RunEvent, accepted_event
from shared.ports.bus import RunStreams
from shared.ports.clock import Clock
from shared.ports.history import History, StoredRun

__all__ = ["EVENTS", "ChatApi", "ChatManner"]

EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class ChatApi:
    """The routes under ``/api/v1/chat`` and ``/api/v1/runs``."""

    intake: Intake
    streams: RunStreams
    watch: RunWatch
    seats: Seats
    waiting: WaitingRoom
    history: History
    clock: Clock
    bodies: Bodies
    departure: Departure
    end: End

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
        try:
            with await self._received(request) as message, self.waiting.expect(message.run) as expected:
                accepted = await message.accept()
                if accepted.run == message.run:
                    reply = self._reply(accepted, expected)
                    if not _ends_with(request, accepted):
                        return await reply
                    is_told, answer = await told_or_gone(reply, request.receive)
                    return answer if is_told and answer else await end_for_nobody(accepted.run, self.end)
            with self.waiting.expect(accepted.run) as expected:  # an idempotency key found an earlier run
                self.waiting.look_now(accepted.run)
                return await self._reply(accepted, expected)
        except LucydError as fault:
            return self.bodies.error(fault)

    async def _reply(self, accepted: Accepted, expected: Expected) -> Response:
        run = {"run_id": str(accepted.run)}
        outcome = await expected.outcome(within=self.intake.manner.wait)
        if outcome is None:
            return self.bodies.json({"error": "processing timeout", **run}, 408)
        if isinstance(outcome, Question):
            return self.bodies.json(question_reply(outcome), 202)
        return self.bodies.json(chat_reply(outcome))

    async def chat_stream(self, request: Request) -> Response:
        """Send a message and follow its run."""
        try:
            with await self._received(request) as message:
                seat = self.seats.take()  # before anything is accepted
                try:
                    accepted = await message.accept()
                except BaseException:
                    seat.leave()
                    raise
        except LucydError as fault:
            return self.bodies.error(fault)
        # Told by ourselves: a client must know its run's id also when Redis is away.
        first = accepted_event(accepted.run, accepted.conversation)
        stream = self._follow(accepted.run, ACCEPTED_ID, seat, first=first)
        if accepted.run == message.run and _ends_with(request, accepted):
            return EndedWithItsClient(stream, accepted.run, self.end)
        return stream

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
            header, query = request.headers.get("last-event-id"), request.query_params.get("after")
            after = read_last_event_id(header or query) or BEGINNING
            seat = self.seats.take()
        except LucydError as fault:
            return self.bodies.error(fault)
        return self._follow(run.id, after, seat)

    def _follow(self, run: UUID, after: str, seat: Seat, *, first: RunEvent | None = None) -> Response:
        events = follow_run(run, after=after, streams=self.streams, watch=self.watch, transcripts=self.history)
        return EventStream(events, clock=self.clock, departure=self.departure, seat=seat, first=first)

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


def _ends_with(request: Request, accepted: Accepted) -> bool:
    """Whether the run that this very request made is to end with its client. One that others brought about goes on."""
    return accepted.created and accepted.into is None and wants_an_end(request)
