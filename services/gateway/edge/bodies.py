"""JSON in and out: bodies are bounded before they are read, and carry the agent's name when they leave."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, Self, TypeVar

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from services.gateway.edge.operation import Dialect
from services.gateway.rules.openai_errors import BadParameter, Unknown, openai_error, retry_header
from services.gateway.rules.whole_characters import with_whole_characters
from shared.errors import BadInput, Conflict, Full, NotFound, TryLater

BODY_WITHIN = 10.0
FAIR_BYTES = 65_536
"""Each such piece of a body gives one second more."""

SMALL_BODY = 65_536
"""For bodies that say only what is wanted."""

LARGE = 262_144
"""What is done with larger bodies is done in a thread: it may take a tenth of a second."""

TOO_DEEP = "the body is nested too deeply"
DEEPEST = 64
"""Levels of lists and objects in each other: more than anybody means, and far less than readers of JSON can bear."""

MOST_VALUES = 400_000
"""Texts, numbers, lists and objects in one body. Each takes up to a hundred bytes of memory, however short it is.
The most that anybody means are the tokens of one request for embeddings."""

TOO_MANY = f"the body holds more than {MOST_VALUES} values"

_DEEP_TO_ORJSON = "depth limit"


class TooLarge(BadInput):
    """The body is larger than this gateway takes."""


class TooSlow(BadInput):
    """The body did not come in time."""


class Place:
    """What one request takes of a room; ``leave`` it when nothing of its body is held any longer.

    ``is_small``: it has said so beforehand, and may take of what is kept for small ones.
    """

    __slots__ = ("_room", "_taken", "is_small")

    def __init__(self, room: "Room") -> None:
        self._room = room
        self.is_small = False
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def take(self, more: int) -> None:
        """So many bytes more. Raises ``TryLater`` when there are none left."""
        self._room.take(more, is_small=self.is_small)
        self._taken += more

    def leave(self) -> None:
        """Give all of them back. Again does nothing."""
        self._room.give_back(self._taken)
        self._taken = 0


class Room:
    """How many bytes of bodies may be in memory in one process, from their first byte until what they say is stored:
    slow senders, or a slow Postgres, could fill it otherwise. An eighth is kept for those that say they are small."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._kept = size // 8

    def place(self) -> Place:
        """For one request; nothing is taken yet."""
        return Place(self)

    def take(self, more: int, *, is_small: bool) -> None:
        """Raises ``TryLater`` when it is full."""
        if more > self._left - (0 if is_small else self._kept):
            raise TryLater("too many large requests come at once", after=2.0)
        self._left -= more

    def give_back(self, taken: int) -> None:
        """What was taken."""
        self._left += taken


ROOM = Room(268_435_456)

Given = ParamSpec("Given")
Made = TypeVar("Made")


async def beside(size: int, work: Callable[Given, Made], *args: Given.args, **more: Given.kwargs) -> Made:
    """Do this ``work`` on a body of that ``size``: where it is large, in a thread, so that others go on meanwhile."""
    if size > LARGE:
        return await asyncio.to_thread(work, *args, **more)
    return work(*args, **more)


def declared_length(request: Request) -> int:
    """How long the body is said to be; 0 when nothing is said."""
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isdecimal() else 0


async def read_json(request: Request, *, at_most: int, within: float = BODY_WITHIN, room: Room = ROOM) -> Any:
    """The body's JSON; it must come ``within`` so many seconds, and what is large at a fair rate.

    Raises ``TooLarge``, ``TooSlow`` and ``BadInput``, and ``TryLater`` when too many large ones come at once.
    """
    with room.place() as place:
        body = await receive_body(request, place, at_most=at_most, within=within)
        return await beside(len(body), parse_json, body)


def parse_json(body: bytearray) -> Any:
    """What the body says. Raises ``BadInput``."""
    if _holds_too_many(body):
        raise BadInput(TOO_MANY)
    try:
        return _bounded(orjson.loads(body), body)
    except ValueError as fault:
        if str(fault).startswith(_DEEP_TO_ORJSON):
            raise BadInput(TOO_DEEP) from fault
    try:
        whole = with_whole_characters(body)
        if whole is not None:
            return _bounded(orjson.loads(whole), body)
    except ValueError:
        pass
    raise BadInput("invalid JSON body")


def _holds_too_many(body: bytearray) -> bool:
    """Whether reading it would make too many values. What stands within a text counts for nothing."""
    if _marks(body) <= MOST_VALUES:
        return False
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 4 * MOST_VALUES:  # each has two quotes, and so has its name
        return True
    return sum(_marks(piece) for piece in bare.split(b'"')[::2]) > MOST_VALUES


def _marks(text: bytearray) -> int:
    """There is one before each value but the first."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{"))


def _bounded(value: Any, body: bytearray) -> Any:
    """The same, unless it is nested too deeply. Few bodies have so many brackets at all that they must be looked at."""
    level = [value] if body.count(b"[") + body.count(b"{") > DEEPEST else []
    for _ in range(DEEPEST):
        level = [item for each in level for item in _inside(each) if isinstance(item, dict | list)]
        if not level:
            return value
    raise BadInput(TOO_DEEP)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


async def receive_body(request: Request, place: Place, *, at_most: int, within: float = BODY_WITHIN) -> bytearray:
    """The body's bytes, for which ``place`` is taken. Raises as ``read_json``, but for what they say."""
    if declared_length(request) > at_most:
        raise TooLarge("the body is too large")
    place.is_small = 0 < declared_length(request) <= FAIR_BYTES
    body = bytearray()
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(began + within) as bound:
            async for piece in request.stream():
                if len(body) + len(piece) > at_most:
                    raise TooLarge("the body is too large")
                place.take(len(piece))
                body += piece
                if len(body) > FAIR_BYTES:
                    bound.reschedule(began + within + len(body) / FAIR_BYTES)
    except TimeoutError as fault:
        raise TooSlow("the body took too long to come") from fault
    except ClientDisconnect as fault:
        raise BadInput("the request was broken off") from fault
    return body


class Bodies:
    """Makes responses; ``agent`` goes into every JSON body."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def json(self, body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
        """A JSON response."""
        content = orjson.dumps({**body, "agent": self._agent}, default=str)
        return Response(content, status_code=status, headers=headers, media_type="application/json")

    def error(self, fault: Exception, *, dialect: Dialect = "lucyd", **more: str) -> Response:
        """The response for one of our own errors, in the operation's ``dialect``; ``more`` goes into the body.

        Raises what is none of ours.
        """
        headers: dict[str, str] = {}
        match fault:
            case TooLarge():
                status = 413
            case TooSlow():
                status, headers = 408, {"Connection": "close"}
            case Conflict():
                status = 409
            case NotFound():
                status = 404
            case BadInput():
                status = 400
            case TryLater():
                status = 429 if isinstance(fault, Full) else 503
                headers = {"Retry-After": str(max(1, round(fault.after)))}
            case _:
                raise fault
        param, code = (fault.param, fault.code) if isinstance(fault, BadParameter | Unknown) else (None, None)
        return self.problem(str(fault), status, dialect=dialect, headers=headers, param=param, code=code, **more)

    def problem(
        self,
        sentence: str,
        status: int,
        *,
        dialect: Dialect = "lucyd",
        headers: Mapping[str, str] | None = None,
        param: str | None = None,
        code: str | None = None,
        **more: Any,
    ) -> Response:
        """A refusal with its sentence and status, in the operation's ``dialect``; ``more`` goes into the body.

        ``param`` and ``code`` are words of OpenAI's form and told in no other.
        """
        match dialect:
            case "openai":
                body = openai_error(sentence, status, param=param, code=code, **more)
                return self.foreign(body, status, {**retry_header(status), **(headers or {})})
            case "plain":
                return self.foreign({"error": sentence, **more}, status, headers)
            case "lucyd":
                return self.json({"error": sentence, **more}, status, dict(headers or {}))

    def foreign(self, body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        """A JSON response whose shape is not ours: the agent's name is not in it."""
        content = orjson.dumps(body, default=str)
        return Response(content, status_code=status, headers=dict(headers or {}), media_type="application/json")
