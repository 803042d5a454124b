"""The agent as a model: what clients of OpenAI ask for, in OpenAI's words."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.follow_run import follow_run
from services.gateway.actions.take_leave import Departure
from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.actions.watch_runs import RunWatch
from services.gateway.edge.bodies import Bodies, read_json
from services.gateway.edge.chat_api import EVENTS, ChatManner
from services.gateway.edge.door import key_of
from services.gateway.edge.event_stream import Seats
from services.gateway.edge.openai_stream import DONE, OpenAIStream, await_end
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.chat_request import ChatRequest, address_of, read_idempotency_key, read_traceparent
from services.gateway.rules.openai_chat import CompletionBody, read_completion
from services.gateway.rules.openai_embeddings import EmbeddingsBody, read_embeddings
from services.gateway.rules.openai_errors import Unknown
from services.gateway.rules.openai_replies import (
    Answer,
    answer_of,
    completion_body,
    model_body,
    names_agent,
    response_body,
    slug,
)
from services.gateway.rules.openai_responses import (
    RESPONSE_ID,
    ResponseBody,
    no_such_response,
    read_response,
    run_of,
    sender_in,
)
from services.gateway.rules.openai_shapes import Completion, Model, ModelList, ResponseReply, RunProblem
from services.gateway.rules.openai_telling import CompletionTelling, ResponseTelling, Telling
from services.gateway.rules.openai_turns import Asked, images_of, read_conversation_header
from services.gateway.rules.reply_shapes import OpenAIProblem
from shared.actions.accept_message import Door, accept_message
from shared.domain.api_key import ApiKey
from shared.domain.attachment import Attachment
from shared.domain.run import Accepted, IdempotencyKey, NewRun, Question
from shared.ids import new_id
from shared.messages.run_events import ACCEPTED_ID, accepted_event
from shared.ports.bus import RunStreams, WakeUps
from shared.ports.clock import Clock
from shared.ports.control import Control
from shared.ports.history import History, StoredRun
from shared.ports.runs import Inbox

CONVERSATION = "X-Lucyd-Conversation"
NEVER_AGAIN = {"x-should-retry": "false"}
"""Clients of OpenAI repeat requests by themselves; of what has ended, or goes on, that would make a second run."""

HOW_IT_IS_TOLD = frozenset({"stream", "stream_options"})
"""What a repeated request may say otherwise: an answer that was lost may be asked for again as a stream."""

ANSWERS_WITHIN = timedelta(seconds=590)
"""The official SDKs hang up after ten minutes and ask again, which would make a second run."""

TIMEOUT = "the reply was not there in time; the run goes on"

Make = Callable[[Answer, str], dict[str, Any]]
Tell = Callable[[UUID, str], Telling]


@dataclass(frozen=True, slots=True)
class OpenAIApi:
    """The routes under ``/v1``. ``inbox`` takes messages in, ``runs`` knows what is asked; ``agent`` is its name."""

    inbox: Door
    runs: Inbox
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
    agent: str

    def operations(self) -> list[Operation]:
        """What they do."""
        unknown = {404: Reply("there is no such model", OpenAIProblem)}
        ends: Mapping[int, Reply] = {
            408: Reply("the reply was not there in time; the run goes on", RunProblem),
            500: Reply("the run has failed, or was cancelled", RunProblem),
        }
        chat = Reply("the answer, or what the run asks its person", Completion, also=(EVENTS,))
        named = {CONVERSATION: {"type": "string", "maxLength": 200}}
        return [
            Operation(
                "GET", "/v1/models", self.models, "chat", "the agent, as a model",
                {200: Reply("it", ModelList)}, dialect="openai", tag="openai",
            ),
            Operation(
                "GET", "/v1/models/{id}", self.model, "chat", "the agent by its id",
                {200: Reply("it", Model), **unknown}, dialect="openai", tag="openai",
            ),
            Operation(
                "POST", "/v1/chat/completions", self.completions, "chat", "send a message as a chat completion",
                {200: chat, **unknown, **ends},
                body=CompletionBody, headers=named, counts_as="work", repeatable=True, dialect="openai", tag="openai",
            ),
            Operation(
                "POST", "/v1/responses", self.responses, "chat", "send a message as a response",
                {
                    200: Reply("the answer, or what the run asks its person", ResponseReply, also=(EVENTS,)),
                    404: Reply("there is no such model, or no such response before this one", OpenAIProblem),
                    **ends,
                },
                body=ResponseBody, headers=named, counts_as="work", repeatable=True, dialect="openai", tag="openai",
            ),
            Operation(
                "GET", "/v1/responses/{id}", self.response, "chat", "a response by its id",
                {200: Reply("it", ResponseReply), 404: Reply("there is no such response", OpenAIProblem)},
                parts={"id": {"type": "string", "pattern": RESPONSE_ID}}, dialect="openai", tag="openai",
            ),
            Operation(
                "POST", "/v1/embeddings", self.embeddings, "chat", "texts as vectors",
                {404: Reply("no embedder is configured", OpenAIProblem)},
                body=EmbeddingsBody, dialect="openai", tag="openai",
            ),
        ]  # fmt: skip

    async def models(self, request: Request) -> Response:
        """The agent, as the one model there is."""
        return self.bodies.foreign({"object": "list", "data": [model_body(self.agent)]})

    async def model(self, request: Request) -> Response:
        """The agent by its id."""
        self._check(request.path_params["id"])
        return self.bodies.foreign(model_body(self.agent))

    async def completions(self, request: Request) -> Response:
        """Send a message; the answer as a chat completion, at once or in chunks."""
        body = await read_json(request, at_most=self.manner.body_bytes)
        model, asked = read_completion(body, conversation=_named(request))
        self._check(model)
        new = await self._new_run(request, body, asked)
        if not asked.stream:
            return await self._answer(new, completion_body)
        telling = partial(CompletionTelling, with_tools=asked.options.tools, with_usage=asked.with_usage)
        return await self._stream(new, telling, closing=DONE)

    async def responses(self, request: Request) -> Response:
        """Send a message; the answer as a response, at once or in typed events."""
        body = await read_json(request, at_most=self.manner.body_bytes)
        model, previous, asked = read_response(body, conversation=_named(request))
        self._check(model)
        if previous is not None:
            asked = replace(asked, conversation=await self._sender_of(previous, key_of(request)))
        new = await self._new_run(request, body, asked)
        if not asked.stream:
            return await self._answer(new, partial(response_body, previous=previous))
        telling = partial(ResponseTelling, with_tools=asked.options.tools, previous=previous)
        return await self._stream(new, telling)

    async def response(self, request: Request) -> Response:
        """What became of a response."""
        run = await self._find(run_of(request.path_params["id"]), key_of(request))
        if run is None:
            raise no_such_response()
        outcome: Mapping[str, Any] | Question | None = run.outcome
        if outcome is None and (questions := await self.runs.questions([run.id])):
            outcome = questions[0]
        return self.bodies.foreign(response_body(answer_of(run.id, outcome), slug(self.agent)))

    async def embeddings(self, request: Request) -> Response:
        """Refused: there is nothing that could embed yet."""
        read_embeddings(await read_json(request, at_most=self.manner.body_bytes))
        raise Unknown("no embedder is configured", param=None, code="embedder_not_configured")

    def _check(self, model: str) -> None:
        if not names_agent(model, self.agent):
            known = slug(self.agent)
            raise Unknown(f"no such model; this one is {known!r}", param="model", code="model_not_found")

    async def _answer(self, new: NewRun, make: Make) -> Response:
        with self.waiting.expect(new.id) as expected:
            accepted = await self._accept(new)
            if accepted.run == new.id:
                return self._reply(
                    new, accepted.run, await expected.outcome(within=min(self.manner.wait, ANSWERS_WITHIN)), make
                )
        with self.waiting.expect(accepted.run) as expected:  # an idempotency key found an earlier run
            self.waiting.look_now(accepted.run)
            return self._reply(
                new, accepted.run, await expected.outcome(within=min(self.manner.wait, ANSWERS_WITHIN)), make
            )

    def _reply(self, new: NewRun, run: UUID, outcome: Mapping[str, Any] | Question | None, make: Make) -> Response:
        answer = answer_of(run, outcome)
        if outcome is None:
            again = {} if new.idempotency else NEVER_AGAIN  # with its key it comes back to the same run
            return self.bodies.problem(TIMEOUT, 408, dialect="openai", headers=again, **answer.beyond)
        if answer.fault is not None:
            code = f"run_{answer.state}"
            return self.bodies.problem(
                answer.fault, 500, dialect="openai", headers=NEVER_AGAIN, code=code, **answer.beyond
            )
        return self.bodies.foreign(make(answer, slug(self.agent)))

    async def _stream(self, new: NewRun, tell: Tell, *, closing: bytes = b"") -> Response:
        seat = self.seats.take()  # before anything is accepted
        try:
            accepted = await self._accept(new)
        except BaseException:
            seat.leave()
            raise
        run = accepted.run
        if accepted.into is None:
            events = follow_run(
                run, after=ACCEPTED_ID, streams=self.streams, watch=self.watch, transcripts=self.history
            )
        else:
            events = await_end(run, self.waiting)  # what it answers is told on a run that is half told already
        first = accepted_event(run, accepted.conversation)
        return OpenAIStream(
            events, tell(run, slug(self.agent)), clock=self.clock, departure=self.departure, seat=seat, first=first,
            closing=closing,
        )  # fmt: skip

    async def _accept(self, new: NewRun) -> Accepted:
        return await accept_message(new, inbox=self.inbox, wake_ups=self.wake_ups, control=self.control)

    async def _new_run(self, request: Request, body: Mapping[str, Any], asked: Asked) -> NewRun:
        key = read_idempotency_key(request.headers.get("idempotency-key"))
        caller, identity = key_of(request), new_id()
        images: Sequence[Attachment] = ()
        if asked.images:  # to decode them may take a tenth of a second
            images = await asyncio.to_thread(images_of, asked.images, self.manner.attachments)
        idempotency = None
        if key is not None:
            question = {name: value for name, value in body.items() if name not in HOW_IT_IS_TOLD}
            told = orjson.dumps([question, _named(request)], option=orjson.OPT_SORT_KEYS)
            scope = f"{caller.name} {request.url.path}"
            idempotency = IdempotencyKey(scope, key, hashlib.sha256(told).digest(), self.manner.key_lives)
        sender = asked.conversation or f"openai-{identity.hex}"
        options = asked.options
        chat = ChatRequest(asked.text, sender, "http", options.tier or "full", options.when_busy)
        return NewRun(
            id=identity,
            address=address_of(chat, key=caller),
            text=chat.text,
            source=chat.source,
            tier=chat.tier,
            sender=chat.sender,
            when_busy=chat.when_busy,
            idempotency=idempotency,
            deadline=self.manner.deadline,
            capacity=self.manner.capacity,
            traceparent=read_traceparent(request.headers.get("traceparent")),
            webhook=self.manner.webhook,
            attachments=images,
            readable=self.manner.readable,
        )

    async def _sender_of(self, previous: UUID, key: ApiKey) -> str:
        run = await self._find(previous, key)
        sender = None if run is None else sender_in(run.conversation, key)
        if sender is None:
            raise no_such_response("previous_response_id")
        return sender

    async def _find(self, identity: UUID, key: ApiKey) -> StoredRun | None:
        run = await self.history.run(identity)
        return run if run is not None and run.principal == key.principal else None


def _named(request: Request) -> str | None:
    return read_conversation_header(request.headers.get(CONVERSATION.lower()))
