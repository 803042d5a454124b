"""Chat: a message in, the reply out, at once or as it is written."""

import asyncio
import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.follow_run import BEGINNING, follow_run
from services.gateway.actions.take_leave import Departure
from services.gateway.actions.wait_for_reply import Expected, WaitingRoom
from services.gateway.actions.watch_runs import RunWatch
from services.gateway.edge.bodies import LARGE, Bodies, declared_length, read_json
from services.gateway.edge.door import key_of, scope_of
from services.gateway.edge.event_stream import EventStream, Seat, Seats
from services.gateway.edge.hang_up import PREFER, End, EndedWithItsClient, end_for_nobody, told_or_gone, wants_an_end
from services.gateway.edge.operation import RUN_PARTS, Operation, Reply
from services.gateway.rules.attachments import AttachmentLimits
from services.gateway.rules.chat_request import (
    LAST_EVENT_ID,
    ChatBody,
    EventsQuery,
    address_of,
    read_chat_request,
    read_idempotency_key,
    read_last_event_id,
    read_traceparent,
)
from services.gateway.rules.lucyd_dialect import chat_reply, question_reply, run_body
from services.gateway.rules.reply_shapes import ChatReply, Problem, QuestionReply, RunProblem, RunReply
from shared.actions.accept_message import Door, accept_message
from shared.domain.attachment import ReadableText
from shared.domain.run import Accepted, IdempotencyKey, NewRun, Question
from shared.errors import BadInput, LucydError, NotFound
from shared.ids import new_id
from shared.messages.run_events import ACCEPTED_ID, RunEvent, accepted_event
from shared.ports.bus import RunStreams, WakeUps
from shared.ports.clock import Clock
from shared.ports.control import Control
from shared.ports.history import History, StoredRun

EVENTS = "text/event-stream"


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
class ChatApi:
    """The routes under ``/api/v1/chat`` and ``/api/v1/runs``."""

    inbox: Door
    wake_ups: WakeUps
    control: Control
    streams: RunStreams
    watch: RunWatch
    seats: Seats
    waiting: WaitingRoom
    history: History
    clock: Clock
    bodies: Bodies
    manner: ChatManner
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
                "GET", "/api/v1/runs/{id}", self.run, "read", "what is known of a run",
                {200: Reply("it", RunReply), **none}, parts=RUN_PARTS,
            ),
            Operation(
                "GET", "/api/v1/runs/{id}/events", self.run_events, "read", "follow a run",
                {200: events, **none}, parts=RUN_PARTS, query=EventsQuery,
                headers={"Last-Event-ID": {"type": "string", "pattern": LAST_EVENT_ID}},
            ),
        ]  # fmt: skip

    async def chat(self, request: Request) -> Response:
        """Send a message and await the reply; 408 names the run, which goes on."""
        try:
            new = await self._new_run(request)
            made = new.id
            with self.waiting.expect(made) as expected:
                accepted = await self._accept(new)
                del new  # with its attachments: the wait may be long, and many may wait
                if accepted.run == made:
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
        outcome = await expected.outcome(within=self.manner.wait)
        if outcome is None:
            return self.bodies.json({"error": "processing timeout", **run}, 408)
        if isinstance(outcome, Question):
            return self.bodies.json(question_reply(outcome), 202)
        return self.bodies.json(chat_reply(outcome))

    async def chat_stream(self, request: Request) -> Response:
        """Send a message and follow its run."""
        try:
            new = await self._new_run(request)
            seat = self.seats.take()  # before anything is accepted
        except LucydError as fault:
            return self.bodies.error(fault)
        try:
            accepted = await self._accept(new)
        except LucydError as fault:
            seat.leave()
            return self.bodies.error(fault)
        except BaseException:
            seat.leave()
            raise
        # Told by ourselves: a client must know its run's id also when Redis is away.
        first = accepted_event(accepted.run, accepted.conversation)
        stream = self._follow(accepted.run, ACCEPTED_ID, seat, first=first)
        if accepted.run == new.id and _ends_with(request, accepted):
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

    async def _accept(self, new: NewRun) -> Accepted:
        return await accept_message(new, inbox=self.inbox, wake_ups=self.wake_ups, control=self.control)

    async def _new_run(self, request: Request) -> NewRun:
        body = await read_json(request, at_most=self.manner.body_bytes)
        if declared_length(request) > LARGE:  # attachments: it may take a tenth of a second
            asked = await asyncio.to_thread(read_chat_request, body, self.manner.attachments)
        else:
            asked = read_chat_request(body, self.manner.attachments)
        key = read_idempotency_key(request.headers.get("idempotency-key"))
        caller = key_of(request)
        idempotency = None
        if key is not None:
            digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()
            scope = f"{caller.name} {request.url.path.removesuffix('/stream')}"
            idempotency = IdempotencyKey(scope, key, digest, self.manner.key_lives)
        return NewRun(
            id=new_id(),
            address=address_of(asked, key=caller),
            text=asked.text,
            source=asked.source,
            tier=asked.tier,
            sender=asked.sender,
            when_busy=asked.when_busy,
            idempotency=idempotency,
            deadline=self.manner.deadline,
            capacity=self.manner.capacity,
            traceparent=read_traceparent(request.headers.get("traceparent")),
            webhook=self.manner.webhook,
            attachments=asked.attachments,
            readable=self.manner.readable,
        )

    async def _find(self, request: Request) -> StoredRun:
        try:
            run = await self.history.run(UUID(request.path_params["id"]))
        except ValueError as fault:
            raise BadInput("a run is named by its id") from fault
        if run is None or not scope_of(request.scope).covers(run.principal):
            raise NotFound("no such run")
        return run


def _ends_with(request: Request, accepted: Accepted) -> bool:
    """Whether the run that this very request made is to end with its client. One that others brought about goes on."""
    return accepted.created and accepted.into is None and wants_an_end(request)
