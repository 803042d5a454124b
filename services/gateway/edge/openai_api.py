"""The agent as a model: what clients of OpenAI ask for, in OpenAI's words."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies, beside, parse_json, receive_body
from services.gateway.edge.chat_api import EVENTS
from services.gateway.edge.door import key_of
from services.gateway.edge.event_stream import Seat
from services.gateway.edge.front_desk import FrontDesk, Outcome
from services.gateway.edge.hang_up import PREFER
from services.gateway.edge.intake import Intake, Received
from services.gateway.edge.openai_stream import DONE, OpenAIStream, await_end
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.chat_request import LONGEST_NAME, address_of
from services.gateway.rules.incoming import Incoming
from services.gateway.rules.openai_chat import CompletionBody, read_completion
from services.gateway.rules.openai_errors import Unknown
from services.gateway.rules.openai_replies import (
    Answer,
    answer_of,
    completion_body,
    has_earlier_turns,
    model_body,
    names_agent,
    response_body,
    slug,
)
from services.gateway.rules.openai_responses import (
    RESPONSE_ID,
    FetchQuery,
    ResponseBody,
    no_such_response,
    read_response,
    run_of,
    sender_in,
)
from services.gateway.rules.openai_shapes import Completion, Model, ModelList, OpenAIRunProblem, ResponseReply
from services.gateway.rules.openai_telling import CompletionTelling, Kept, ResponseTelling, Telling
from services.gateway.rules.openai_turns import Asked, images_of, read_conversation_header, read_openai
from services.gateway.rules.reply_shapes import OpenAIProblem
from shared.domain.api_key import ApiKey
from shared.domain.run import Accepted, NewRun, Question
from shared.errors import TryLater
from shared.ids import new_id
from shared.messages.run_events import ACCEPTED_ID, RunEvent, accepted_event, event_id
from shared.ports.history import History, StoredRun
from shared.ports.runs import Inbox

CONVERSATION = "X-Lucyd-Conversation"
NAMES_CONVERSATION = {
    "type": "string",
    "maxLength": LONGEST_NAME,
    "pattern": "^[ -~]*$",
    "description": "Names the conversation, before all else. What is not ASCII comes as UTF-8.",
}
NEVER_AGAIN = {"x-should-retry": "false"}
"""Clients of OpenAI repeat requests by themselves; of what has ended, or goes on, that would make a second run."""

HOW_IT_IS_TOLD = frozenset({"stream", "stream_options"})
"""What a repeated request may say otherwise: an answer that was lost may be asked for again as a stream."""

ANSWERS_WITHIN = timedelta(seconds=590)
"""The official SDKs hang up after ten minutes and ask again, which would make a second run."""

TIMEOUT = "the reply was not there in time; the run goes on"

Read = Callable[[Request, Any, int], Awaitable[tuple[NewRun, "Manner"]]]
Make = Callable[[Answer, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Manner:
    """How an answer is to be told. Nothing of the request's body is in it: it stays as long as the run takes.

    ``has_key``: asked again, the request would come back to the same run. ``is_whole``: the words of all turns are
    told, and not those of the last alone.
    """

    streams: bool
    has_key: bool
    make: Make
    telling: Callable[[UUID, str], Telling]
    closing: bytes = b""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class OpenAIApi:
    """The routes under ``/v1``. ``inbox`` knows what is asked; ``agent`` is its name."""

    desk: FrontDesk
    intake: Intake
    inbox: Inbox
    history: History
    bodies: Bodies
    agent: str

    def operations(self) -> list[Operation]:
        """What they do."""
        unknown = {404: Reply("there is no such model", OpenAIProblem)}
        ends: Mapping[int, Reply] = {
            408: Reply("the reply was not there in time; the run goes on", OpenAIRunProblem),
            500: Reply("the run has failed, or was cancelled", OpenAIRunProblem),
        }
        chat = Reply("the answer, or what the run asks its person", Completion, also=(EVENTS,))
        headers: Mapping[str, Mapping[str, Any]] = {CONVERSATION: NAMES_CONVERSATION, **PREFER}
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
                body=CompletionBody, headers=headers, counts_as="work", repeatable=True, dialect="openai", tag="openai",
            ),
            Operation(
                "POST", "/v1/responses", self.responses, "chat", "send a message as a response",
                {
                    200: Reply("the answer, or what the run asks its person", ResponseReply, also=(EVENTS,)),
                    404: Reply("there is no such model, or no such response before this one", OpenAIProblem),
                    **ends,
                },
                body=ResponseBody, headers=headers, counts_as="work", repeatable=True, dialect="openai", tag="openai",
            ),
            Operation(
                "GET", "/v1/responses/{id}", self.response, "chat", "a response by its id",
                {200: Reply("it", ResponseReply), 404: Reply("there is no such response", OpenAIProblem)},
                query=FetchQuery, parts={"id": {"type": "string", "pattern": RESPONSE_ID}},
                dialect="openai", tag="openai",
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
        return await self._serve(request, self._completion)

    async def responses(self, request: Request) -> Response:
        """Send a message; the answer as a response, at once or in typed events."""
        return await self._serve(request, self._response)

    async def response(self, request: Request) -> Response:
        """What became of a response."""
        read_openai(FetchQuery, dict(request.query_params))
        run = await self._find(run_of(request.path_params["id"]), key_of(request))
        if run is None:
            raise no_such_response()
        outcome: Mapping[str, Any] | Question | None = run.outcome
        if outcome is None and (questions := await self.inbox.questions([run.id])):
            outcome = questions[0]
        answer = answer_of(run.id, outcome)
        if outcome is not None and answer.fault is None and has_earlier_turns(outcome):
            answer = await self._whole(answer)
        return self.bodies.foreign(response_body(answer, slug(self.agent)))

    def _check(self, model: str) -> None:
        if not names_agent(model, self.agent):
            known = slug(self.agent)
            raise Unknown(f"no such model; this one is {known!r}", param="model", code="model_not_found")

    async def _serve(self, request: Request, read: Read) -> Response:
        message, manner = await self._received(request, read)
        if manner.streams:
            return await self.desk.stream(message, request, partial(self._followed, manner))
        within = min(self.intake.manner.wait, ANSWERS_WITHIN)
        return await self.desk.answer(message, request, partial(self._told, manner), within=within)

    async def _received(self, request: Request, read: Read) -> tuple[Received, Manner]:
        """The message; nothing is accepted yet, and somebody must ``leave`` it."""
        place = self.intake.room.place()
        try:
            body = await receive_body(request, place, at_most=self.intake.manner.body_bytes)
            new, manner = await read(request, await beside(len(body), parse_json, body), len(body))
            return Received(new, self.intake, place), manner
        except BaseException:
            place.leave()
            raise

    async def _completion(self, request: Request, body: Any, size: int) -> tuple[NewRun, Manner]:
        most = self.intake.manner.attachments.count
        model, asked = await beside(size, read_completion, body, conversation=_named(request), most_images=most)
        self._check(model)
        new = await beside(size, self._new_run, request, body, asked)
        telling = partial(CompletionTelling, with_tools=asked.options.tools, with_usage=asked.with_usage)
        return new, Manner(asked.stream, new.idempotency is not None, completion_body, telling, closing=DONE)

    async def _response(self, request: Request, body: Any, size: int) -> tuple[NewRun, Manner]:
        most, named = self.intake.manner.attachments.count, _named(request)
        model, previous, asked = await beside(size, read_response, body, conversation=named, most_images=most)
        self._check(model)
        if previous is not None:
            asked = replace(asked, conversation=await self._sender_of(previous, key_of(request)))
        new = await beside(size, self._new_run, request, body, asked)
        make = partial(response_body, previous=previous)
        telling = partial(ResponseTelling, with_tools=asked.options.tools, previous=previous)
        return new, Manner(asked.stream, new.idempotency is not None, make, telling, is_whole=True)

    async def _told(self, manner: Manner, run: UUID, outcome: Outcome) -> Response:
        answer = answer_of(run, outcome)
        if outcome is None:
            again = {} if manner.has_key else NEVER_AGAIN
            return self.bodies.problem(TIMEOUT, 408, dialect="openai", headers=again, **answer.beyond)
        if answer.fault is not None:
            return self.bodies.problem(answer.fault, 500, dialect="openai", code=f"run_{answer.state}", **answer.beyond)
        if manner.is_whole and has_earlier_turns(outcome):
            with contextlib.suppress(TryLater):  # the answer itself is here, and is not to be lost for that
                answer = await self._whole(answer)
        return self.bodies.foreign(manner.make(answer, slug(self.agent)))

    async def _whole(self, answer: Answer) -> Answer:
        """The same with the words of the turns before the last, as its stream tells them. Raises ``TryLater``."""
        kept, after, goes_on, is_known = Kept(), ACCEPTED_ID, True, False
        while goes_on:
            told = await self.history.told(answer.run, after=after)
            for event in told.events:
                kept.take(event)
                is_known = is_known or event.type == "delta"
            goes_on, after = told.more, told.complete_to or after
        if not is_known:  # its steps may be forgotten
            for turn, text in enumerate(await self.history.said(answer.run), start=1):
                kept.take(RunEvent(event_id(1, turn, 1), "delta", {"text": text}))
        return replace(answer, text=kept.text(answer.text))

    def _followed(self, manner: Manner, accepted: Accepted, seat: Seat) -> Response:
        run, desk = accepted.run, self.desk
        # What a message answers is told on a run that is half told already: of that one only the end.
        events = desk.events(run, after=ACCEPTED_ID) if accepted.into is None else await_end(run, desk.waiting)
        return OpenAIStream(
            events, manner.telling(run, slug(self.agent)), clock=desk.clock, departure=desk.departure, seat=seat,
            first=accepted_event(run, accepted.conversation), closing=manner.closing,
        )  # fmt: skip

    def _new_run(self, request: Request, body: Mapping[str, Any], asked: Asked) -> NewRun:
        question = {name: value for name, value in body.items() if name not in HOW_IT_IS_TOLD}
        idempotency = self.intake.idempotency(request, request.url.path, [question, _named(request)])
        images = images_of(asked.images, self.intake.manner.attachments, field=asked.field)
        identity, options = new_id(), asked.options
        sender = asked.conversation or f"openai-{identity.hex}"
        address = address_of("http", sender, key=key_of(request))
        incoming = Incoming(asked.text, sender, "http", options.tier or "full", address, when_busy=options.when_busy)
        return self.intake.run_of(request, incoming, images, idempotency, id=identity)

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
