"""A model provider by script: a real HTTP server that speaks both vendors' wires, streamed or whole as it is asked.

    POST /v1/messages            Anthropic          POST /v1/chat/completions    OpenAI
    GET  /__calls                how often each X-Lucyd-Call-Id was asked, and how the answers went
    GET  /__requests?last=10     what was asked (path, call_id, headers without credentials, body)
    POST /__scripts              {"name": ..., "steps": [{"say": "hi"}, {"use": [["exec", {"command": "ls"}]]},
                                 {"fail": 529, "retry_after": 1}, {"hang": 3}, {"break": 40}]}
    POST /__reset                forget requests, counts and attempts

In this process (``async with ScriptedModelServer() as server``, or ``with ScriptedModelServer().in_thread() as server``
for fixtures), or as one of its own: ``python -m tests.scripted_model_server --port 0`` prints its address first.

Which script answers is chosen by ``[[script:name]]`` in the last text of the user (``[[script:name 17]]`` tells two
conversations apart); without it the default script does, an echo. A script is a function or a list of steps. Of a list,
``Say`` and ``Use`` are the turns after that text, found by counting the answers since, so that a restarted caller
gets the same answer. ``Fail``, ``Hang`` and ``BreakMidStream`` stand before the turn they spoil and happen once per
conversation (the same messages), in their order; at the end of a list they happen always.

It refuses what the vendors refuse (``_refuse_messages``, ``_refuse_chat``), with status 400 and their shape of error.
Measured here: 2,400 to 4,500 streamed calls per second (8 chunks each) from one process, on two shared cores.
"""

import argparse
import asyncio
import contextlib
import math
import re
import socket
import threading
import traceback
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal
from urllib.parse import parse_qs
from uuid import uuid4

import orjson
import uvicorn

Wire = Literal["anthropic", "openai"]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class Tokens:
    """What the answer says it cost. The kinds do not overlap; each wire reports them in its own way."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True)
class Say:
    """Answer with text. ``redacted`` is a block of encrypted thinking (Anthropic).

    ``unstreamed`` answers whole although a stream was asked for, ``uncounted`` leaves the usage out, ``stop`` is the
    reason in the wire's own word.
    """

    text: str
    thinking: str | None = None
    redacted: str | None = None
    tokens: Tokens | None = None
    unstreamed: bool = False
    uncounted: bool = False
    stop: str | None = None


@dataclass(frozen=True)
class Use:
    """Answer with tool calls, all at once."""

    calls: Sequence[tuple[str, Mapping[str, Any]]]
    text: str = ""
    thinking: str | None = None
    redacted: str | None = None
    tokens: Tokens | None = None
    unstreamed: bool = False
    uncounted: bool = False
    stop: str | None = None


@dataclass(frozen=True)
class Fail:
    """Refuse with a status."""

    status: int
    retry_after: float | None = None
    message: str = "scripted failure"


@dataclass(frozen=True)
class Hang:
    """Say nothing for some seconds, then go on with the step that follows, or answer 504."""

    seconds: float


@dataclass(frozen=True)
class BreakMidStream:
    """Begin an answer and cut the connection after some characters.

    ``cleanly`` ends the stream in good form, only too early; ``error`` sends this type of error instead (Anthropic's
    names, such as ``overloaded_error``).
    """

    after_chars: int
    text: str = "This answer will never be whole, because its connection breaks before that."
    cleanly: bool = False
    error: str | None = None


Step = Say | Use | Fail | Hang | BreakMidStream


@dataclass(frozen=True)
class Asked:
    """What a script that is a function may look at. ``turn`` counts answers since ``text``, ``attempt`` from 0."""

    wire: Wire
    body: Mapping[str, Any]
    text: str
    turn: int
    attempt: int
    call_id: str


Script = Callable[[Asked], Step] | Sequence[Step]


def echo(asked: Asked) -> Step:
    """The default script."""
    return Say(f"echo: {asked.text}")


IMAGES_OF_A_RESULT = "[images of the result of the call "
"""On OpenAI's wire images of results stand in a message of the user's, who has not said it."""

BUILT_IN: Mapping[str, Script] = {
    "echo": echo,
    "two_tools": [
        Use([("read", {"file_path": "MEMORY.md"}), ("exec", {"command": "echo two"})], text="Let me look."),
        Say("Both tools are done."),
    ],
    "long": [Say("All work and no play makes a long answer. " * 200)],
    "fail_once": [Fail(529, retry_after=0.05), Say("Better now.")],
    "fail_always": [Fail(500)],
    "refuse": [Fail(400, message="scripted refusal")],
    "limit": [Fail(429, retry_after=1), Say("Within the limit again.")],
    "break_once": [BreakMidStream(20), Say("Whole this time.")],
    "hang_once": [Hang(30), Say("That took a while.")],
}


def steps_from_json(steps: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Steps as ``POST /__scripts`` takes them. Raises ``ValueError`` for what it does not know."""
    made: list[Step] = []
    for step in steps:
        rest = dict(step)
        if "tokens" in rest:
            rest["tokens"] = Tokens(**rest["tokens"])
        if "say" in rest:
            made.append(Say(rest.pop("say"), **rest))
        elif "use" in rest:
            made.append(Use([(name, arguments) for name, arguments in rest.pop("use")], **rest))
        elif "fail" in rest:
            made.append(Fail(rest.pop("fail"), **rest))
        elif "hang" in rest:
            made.append(Hang(rest.pop("hang")))
        elif "break" in rest:
            made.append(BreakMidStream(rest.pop("break"), **rest))
        else:
            raise ValueError(f"unknown step: {step}")
    return made


@dataclass
class ScriptedModelServer:
    """The server. ``latency`` is the seconds before an answer begins, ``chunks`` how many pieces a text comes in,
    ``chunk_interval`` the seconds between them. ``requests`` keeps the newest thousand."""

    scripts: dict[str, Script] = field(default_factory=dict)
    default: Script = echo
    latency: float = 0.0
    chunks: int = 8
    chunk_interval: float = 0.0
    port: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=1000))
    _attempts: Counter[str] = field(default_factory=Counter)
    _server: "_Server | None" = None
    _serving: "asyncio.Task[None] | None" = None

    @property
    def url(self) -> str:
        """The address without a path: what Anthropic's ``base_url`` is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """What OpenAI's ``base_url`` is."""
        return f"{self.url}/v1"

    def base_url(self, wire: Wire) -> str:
        """The ``base_url`` of a model that speaks this wire."""
        return self.url if wire == "anthropic" else self.openai_url

    def reset(self) -> None:
        """Forget what was asked and how often, but not the scripts."""
        for kept in (self.calls, self.outcomes, self.requests, self._attempts):
            kept.clear()

    async def __aenter__(self) -> "ScriptedModelServer":
        sock = self.bind()
        self._server = _Server(
            uvicorn.Config(
                self.app,
                interface="asgi3",  # else a bound method is taken for the older interface
                lifespan="off",
                ws="none",
                proxy_headers=False,
                log_level="critical",
                access_log=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._serving = asyncio.create_task(self._server.serve([sock]))
        while not self._server.started:
            await asyncio.sleep(0.005)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        assert self._serving is not None
        self._server.should_exit = True
        self._server.force_exit = True
        await self._serving

    def bind(self) -> socket.socket:
        """Take the port, so that it is known before anything is served."""
        # The protocol is named, because asyncio turns Nagle's delay (40 ms) off only for sockets that name it.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", self.port))
        self.port = sock.getsockname()[1]
        return sock

    @contextlib.contextmanager
    def in_thread(self) -> Iterator["ScriptedModelServer"]:
        """Serve from a thread with a loop of its own, for fixtures that outlive the loop of one test."""
        ready, leave = threading.Event(), threading.Event()

        async def serve() -> None:
            async with self:
                ready.set()
                await asyncio.to_thread(leave.wait)

        thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
        thread.start()
        assert ready.wait(10), "the scripted model server did not start"
        try:
            yield self
        finally:
            leave.set()
            thread.join(10)

    async def app(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """The ASGI application."""
        try:
            await self._route(scope, receive, send)
        except Exception:
            # uvicorn is silenced, because it would complain of every connection that is cut on purpose.
            traceback.print_exc()
            raise

    async def _route(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        raw = await _body(receive)
        match scope["method"], scope["path"]:
            case "POST", "/v1/messages":
                await self._answer("anthropic", scope, raw, receive, send)
            case "POST", "/v1/chat/completions":
                await self._answer("openai", scope, raw, receive, send)
            case "GET", "/__calls":
                counts = {"total": self.calls.total(), "by_call_id": self.calls, "outcomes": self.outcomes}
                await _json(send, 200, counts)
            case "GET", "/__requests":
                last = int(parse_qs(scope["query_string"].decode()).get("last", ["1000"])[0])
                await _json(send, 200, list(self.requests)[-last:])
            case "POST", "/__scripts":
                told = orjson.loads(raw)
                self.scripts[told["name"]] = steps_from_json(told["steps"])
                await _json(send, 200, {})
            case "POST", "/__reset":
                self.reset()
                await _json(send, 200, {})
            case _:
                await _json(send, 404, {"error": {"type": "not_found_error", "message": "no such path"}})

    async def _answer(self, wire: Wire, scope: Mapping[str, Any], raw: bytes, receive: Receive, send: Send) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        call_id = headers.get("x-lucyd-call-id", "")
        self.calls[call_id] += 1
        try:
            body = orjson.loads(raw)
            self._record(scope["path"], call_id, headers, body)
            _refuse_headers(wire, headers)
            (_refuse_messages if wire == "anthropic" else _refuse_chat)(body)
        except (Refusal, orjson.JSONDecodeError) as refusal:
            self.outcomes["refused"] += 1
            status = refusal.status if isinstance(refusal, Refusal) else 400
            await _fail(wire, send, Fail(status, message=str(refusal)))
            return
        if self.latency:
            await asyncio.sleep(self.latency)
        await self._perform(wire, self._asked(wire, body, call_id), receive, send)

    def _record(self, path: str, call_id: str, headers: Mapping[str, str], body: Any) -> None:
        shown = {name: "***" if name in ("authorization", "x-api-key") else value for name, value in headers.items()}
        self.requests.append({"path": path, "call_id": call_id, "headers": shown, "body": body})

    def _asked(self, wire: Wire, body: Mapping[str, Any], call_id: str) -> Asked:
        text, turn = _last_text(body["messages"])
        conversation = blake2b(orjson.dumps(body["messages"]), digest_size=16).hexdigest()
        self._attempts[conversation] += 1
        return Asked(wire, body, text, turn, self._attempts[conversation] - 1, call_id)

    async def _perform(self, wire: Wire, asked: Asked, receive: Receive, send: Send) -> None:
        step, attempt = self._step(asked, asked.attempt), asked.attempt
        while isinstance(step, Hang):
            if await _hung_up(receive, step.seconds):
                self.outcomes["abandoned"] += 1
                return
            attempt += 1
            following = self._step(asked, attempt)
            step = following if following is not step else Fail(504, message="hung for ever")
        self.outcomes[type(step).__name__.lower()] += 1
        if isinstance(step, Fail):
            await _fail(wire, send, step)
            return
        said = step if not isinstance(step, BreakMidStream) else Say(step.text)
        reply = (_AnthropicReply if wire == "anthropic" else _OpenAIReply)(asked.body, said, self.chunks)
        spoiled = step if isinstance(step, BreakMidStream) else None
        if asked.body.get("stream") and not said.unstreamed:
            await self._stream(reply.events(), send, spoiled)
        else:
            await _whole(reply.whole(), send, spoiled)

    def _step(self, asked: Asked, attempt: int) -> Step:
        found = re.search(r"\[\[script:([\w-]+)[^\]]*\]\]", asked.text)
        name = found[1] if found else ""
        script = self.scripts.get(name) or BUILT_IN.get(name) or self.default
        if callable(script):
            return script(asked)
        turns: list[list[Step]] = [[]]
        for step in script:
            turns[-1].append(step)
            if isinstance(step, Say | Use):
                turns.append([])
        turn = turns[asked.turn] if asked.turn < len(turns) else []
        if not turn:
            return Say(f"(the script has no turn {asked.turn})")
        return turn[min(attempt, len(turn) - 1)]

    async def _stream(self, events: Iterator[tuple[bytes, int]], send: Send, spoiled: BreakMidStream | None) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        said = 0
        for event, characters in events:
            if spoiled and said + characters > spoiled.after_chars:
                if spoiled.error:
                    error = {"type": "error", "error": {"type": spoiled.error, "message": "scripted failure"}}
                    await _chunk(send, b"event: error\ndata: " + orjson.dumps(error) + b"\n\n")
                if spoiled.error or spoiled.cleanly:
                    await _chunk(send, b"", more=False)
                return  # without a last chunk: the server cuts the connection
            said += characters
            await _chunk(send, event)
            if characters and self.chunk_interval:
                await asyncio.sleep(self.chunk_interval)
        await _chunk(send, b"", more=False)


class _Server(uvicorn.Server):
    """Leaves the signals to whoever started it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


# --- the wires -----------------------------------------------------------------------------------------------------


class _AnthropicReply:
    def __init__(self, body: Mapping[str, Any], step: Say | Use, chunks: int) -> None:
        self._step = step
        self._chunks = chunks
        self._model = body["model"]
        self._content = list(self._blocks())
        self._usage = None if step.uncounted else _anthropic_usage(step.tokens or _tokens(body, step))
        self._stop = step.stop or ("tool_use" if isinstance(step, Use) else "end_turn")
        self._id = f"msg_{uuid4().hex[:24]}"

    def _blocks(self) -> Iterator[dict[str, Any]]:
        if self._step.thinking is not None:
            thinking = self._step.thinking
            yield {"type": "thinking", "thinking": thinking, "signature": signature_of(thinking)}
        if self._step.redacted is not None:
            yield {"type": "redacted_thinking", "data": self._step.redacted}
        if self._step.text:
            yield {"type": "text", "text": self._step.text}
        for name, arguments in self._step.calls if isinstance(self._step, Use) else ():
            yield {"type": "tool_use", "id": f"toolu_{uuid4().hex[:24]}", "name": name, "input": dict(arguments)}

    def whole(self) -> dict[str, Any]:
        usage = {"usage": self._usage} if self._usage else {}
        return {**self._head(), "content": self._content, "stop_reason": self._stop, **usage}

    def _head(self) -> dict[str, Any]:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._model, "stop_sequence": None}

    def events(self) -> Iterator[tuple[bytes, int]]:
        # As the vendor does: the output is 1 at first, and the running total at the end.
        usage = {"usage": {**self._usage, "output_tokens": 1}} if self._usage else {}
        message = {**self._head(), "content": [], "stop_reason": None, **usage}
        yield self._event({"type": "message_start", "message": message}), 0
        yield self._event({"type": "ping"}), 0
        for index, block in enumerate(self._content):
            yield from self._block_events(index, block)
        spent = {"usage": {"output_tokens": self._usage["output_tokens"]}} if self._usage else {}
        delta = {"stop_reason": self._stop, "stop_sequence": None}
        ending = self._event({"type": "message_delta", "delta": delta, **spent})
        yield ending + self._event({"type": "message_stop"}), 0

    def _block_events(self, index: int, block: dict[str, Any]) -> Iterator[tuple[bytes, int]]:
        empty, deltas = self._deltas(block)
        yield self._event({"type": "content_block_start", "index": index, "content_block": empty}), 0
        for delta in deltas:
            characters = len(delta.get("text", ""))
            yield self._event({"type": "content_block_delta", "index": index, "delta": delta}), characters
        yield self._event({"type": "content_block_stop", "index": index}), 0

    def _deltas(self, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        match block["type"]:
            case "text":
                pieces = _pieces(block["text"], self._chunks)
                return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
            case "thinking":
                pieces = _pieces(block["thinking"], self._chunks)
                return {"type": "thinking", "thinking": "", "signature": ""}, [
                    *({"type": "thinking_delta", "thinking": piece} for piece in pieces),
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "tool_use":
                pieces = _pieces(orjson.dumps(block["input"]).decode(), 3)
                return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": p} for p in ["", *pieces]]
        return block, []

    @staticmethod
    def _event(data: Mapping[str, Any]) -> bytes:
        return b"event: " + str(data["type"]).encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


class _OpenAIReply:
    def __init__(self, body: Mapping[str, Any], step: Say | Use, chunks: int) -> None:
        self._step = step
        self._chunks = chunks
        self._head = {"id": f"chatcmpl-{uuid4().hex[:24]}", "created": 1, "model": body["model"]}
        self._usage = None if step.uncounted else _openai_usage(step.tokens or _tokens(body, step))
        self._wants_usage = (body.get("stream_options") or {}).get("include_usage", False)
        self._stop = step.stop or ("tool_calls" if isinstance(step, Use) else "stop")
        self._calls = [
            {
                "id": f"call_{uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": name, "arguments": orjson.dumps(arguments).decode()},
            }
            for name, arguments in (step.calls if isinstance(step, Use) else ())
        ]

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._step.text or None}
        if self._step.thinking is not None:
            message["reasoning_content"] = self._step.thinking
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "finish_reason": self._stop}
        usage = {"usage": self._usage} if self._usage else {}
        return {**self._head, "object": "chat.completion", "choices": [choice], **usage}

    def events(self) -> Iterator[tuple[bytes, int]]:
        yield self._delta({"role": "assistant", "content": ""}), 0
        for piece in _pieces(self._step.thinking or "", self._chunks):
            yield self._delta({"reasoning_content": piece}), 0
        for piece in _pieces(self._step.text, self._chunks):
            yield self._delta({"content": piece}), len(piece)
        for index, call in enumerate(self._calls):
            function: Any = call["function"]
            opening = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
            yield self._delta({"tool_calls": [opening]}), 0
            for piece in _pieces(function["arguments"], 3):
                yield self._delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), 0
        yield self._delta({}, self._stop), 0
        if self._usage and self._wants_usage:
            yield self._chunk([], self._usage), 0
        yield b"data: [DONE]\n\n", 0

    def _delta(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": finish_reason}], None)

    def _chunk(self, choices: list[Any], usage: Mapping[str, Any] | None) -> bytes:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, "usage": usage}
        return b"data: " + orjson.dumps(chunk) + b"\n\n"


def signature_of(thinking: str) -> str:
    """What signs a block of thinking; replayed thinking must carry the signature of exactly its text."""
    return blake2b(thinking.encode(), key=b"scripted", digest_size=24).hexdigest()


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, math.ceil(len(text) / count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _tokens(body: Mapping[str, Any], step: Say | Use) -> Tokens:
    said = len(step.text) + len(step.thinking or "") + len(str(step.calls) if isinstance(step, Use) else "")
    asked = sum(len(str(message["content"])) for message in body["messages"]) + len(str(body.get("system", "")))
    return Tokens(input=asked // 4 + 1, output=said // 4 + 1)


def _anthropic_usage(tokens: Tokens) -> dict[str, int]:
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write,
    }


def _openai_usage(tokens: Tokens) -> dict[str, Any]:
    prompt = tokens.input + tokens.cache_read + tokens.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
    }


# --- plain HTTP ----------------------------------------------------------------------------------------------------


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _hung_up(receive: Receive, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


async def _chunk(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def _json(send: Send, status: int, value: Any, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    content_type = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": status, "headers": [content_type, *headers]})
    await _chunk(send, orjson.dumps(value), more=False)


async def _whole(message: Mapping[str, Any], send: Send, spoiled: BreakMidStream | None) -> None:
    if spoiled is None:
        await _json(send, 200, message)
        return
    data = orjson.dumps(message)
    cut = data[: min(spoiled.after_chars, len(data) - 1)]
    headers = [(b"content-type", b"application/json")]
    if not spoiled.cleanly:
        headers.append((b"content-length", str(len(data)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _chunk(send, cut, more=not spoiled.cleanly)


async def _fail(wire: Wire, send: Send, step: Fail) -> None:
    headers = [(b"retry-after", f"{step.retry_after:g}".encode())] if step.retry_after is not None else []
    kind = _ERROR_TYPES.get(step.status, "api_error" if step.status >= 500 else "invalid_request_error")
    error: dict[str, Any] = {"type": kind, "message": step.message}
    body = {"type": "error", "error": error} if wire == "anthropic" else {"error": {**error, "code": None}}
    await _json(send, step.status, body, headers)


_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


# --- what the vendors refuse ---------------------------------------------------------------------------------------


class Refusal(Exception):
    """The request is one that the vendor would refuse."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def _must(holds: object, message: str) -> None:
    if not holds:
        raise Refusal(message)


def _known(value: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for name in value:
        _must(name in known, f"{where}: {name}: Extra inputs are not permitted")


def _refuse_headers(wire: Wire, headers: Mapping[str, str]) -> None:
    if not (headers.get("authorization") or headers.get("x-api-key")):
        raise Refusal("no credentials", 401)
    _must("json" in headers.get("content-type", ""), "content-type: must be JSON")
    _must(wire == "openai" or headers.get("anthropic-version"), "anthropic-version: header is required")


_MESSAGES_FIELDS = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "thinking", "output_config"),
        *("stop_sequences", "metadata", "service_tier", "container", "cache_control", "inference_geo", "speed"),
    }
)
_BLOCK_FIELDS: Mapping[str, frozenset[str]] = {
    "text": frozenset(["type", "text", "cache_control", "citations"]),
    "image": frozenset(["type", "source", "cache_control"]),
    "tool_use": frozenset(["type", "id", "name", "input", "cache_control", "caller"]),
    "tool_result": frozenset(["type", "tool_use_id", "content", "is_error", "cache_control"]),
    "thinking": frozenset(["type", "thinking", "signature"]),
    "redacted_thinking": frozenset(["type", "data"]),
}
_BLOCKS_OF = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def _refuse_messages(body: Any) -> None:
    """Anthropic's rules."""
    _must(isinstance(body, dict), "the body must be an object")
    _known(body, _MESSAGES_FIELDS, "body")
    _must(body.get("model"), "model: Field required")
    _must(isinstance(body.get("max_tokens"), int) and body["max_tokens"] >= 1, "max_tokens: Field required")
    _refuse_thinking(body.get("thinking"), body["max_tokens"])
    marks = _refuse_system(body.get("system", []))
    _must(marks <= 4, "A maximum of 4 blocks with cache_control may be provided")
    for tool in body.get("tools", []):
        _known(tool, frozenset(["name", "description", "input_schema", "cache_control"]), "tools")
        _must(_TOOL_NAME.fullmatch(tool.get("name", "")), "tools: name: String should match pattern")
        _must(tool.get("input_schema", {}).get("type") == "object", "tools: input_schema: type: Field required")
    _refuse_twins([tool["name"] for tool in body.get("tools", [])])
    _refuse_turns(body.get("messages"))


def _refuse_twins(names: list[str]) -> None:
    _must(len(set(names)) == len(names), "tools: Tool names must be unique.")


def _refuse_thinking(thinking: Any, max_tokens: int) -> None:
    match thinking:
        case None | {"type": "adaptive"} | {"type": "disabled"}:
            return
        case {"type": "enabled", "budget_tokens": int(budget)}:
            _must(budget >= 1024, "thinking: budget_tokens: Input should be at least 1024")
            _must(budget < max_tokens, "`max_tokens` must be greater than `thinking.budget_tokens`")
        case _:
            raise Refusal("thinking: unknown")


def _refuse_system(system: Any) -> int:
    if isinstance(system, str):
        return 0
    for block in system:
        _known(block, _BLOCK_FIELDS["text"], "system")
        _must(block.get("type") == "text" and block["text"].strip(), "system: text content blocks must be non-empty")
    return sum("cache_control" in block for block in system)


def _refuse_turns(messages: Any) -> None:
    _must(isinstance(messages, list) and messages, "messages: at least one message is required")
    _must(messages[0].get("role") == "user", "messages: first message must use the user role")
    _must(messages[-1]["role"] == "user", "This model does not support assistant message prefill")
    awaited: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages.{place}"
        _known(message, frozenset(["role", "content"]), where)
        role = message["role"]
        _must(role in _BLOCKS_OF, f"{where}: role: unknown")
        _must(place == 0 or messages[place - 1]["role"] != role, f"{where}: roles must alternate")
        _refuse_results(message, awaited, where)
        awaited = _refuse_content(message, where)


def _refuse_results(message: Mapping[str, Any], awaited: list[str], where: str) -> None:
    if message["role"] != "user":
        return
    content = message["content"] if isinstance(message["content"], list) else []
    given = [block["tool_use_id"] for block in content if block.get("type") == "tool_result"]
    _must(sorted(given) == sorted(awaited), f"{where}: `tool_use` ids {awaited} answered by `tool_result` ids {given}")
    _must(
        all(block["type"] == "tool_result" for block in content[: len(given)]), f"{where}: tool_result must come first"
    )


def _refuse_content(message: Mapping[str, Any], where: str) -> list[str]:
    content = message["content"]
    _must(content, f"{where}: content must be non-empty")
    if isinstance(content, str):
        _must(content.strip(), f"{where}: text content blocks must contain non-whitespace text")
        return []
    for block in content:
        kind = block.get("type")
        _must(kind in _BLOCKS_OF[message["role"]], f"{where}: {message['role']} may not hold {kind}")
        _known(block, _BLOCK_FIELDS[kind], where)
        _refuse_block(block, where)
    return [block["id"] for block in content if block["type"] == "tool_use"]


def _refuse_block(block: Mapping[str, Any], where: str) -> None:
    match block["type"]:
        case "text":
            _must(block["text"].strip(), f"{where}: text content blocks must contain non-whitespace text")
        case "image":
            source = block["source"]
            _must(source.get("type") == "base64" and source["data"], f"{where}: source: unknown")
            _must(source["media_type"].startswith("image/"), f"{where}: media_type: unknown")
        case "tool_use":
            _must(_TOOL_NAME.fullmatch(block["id"]), f"{where}: tool_use.id: String should match pattern")
            _must(isinstance(block["input"], dict), f"{where}: tool_use.input: Input should be a valid dictionary")
        case "thinking":
            genuine = block["signature"] == signature_of(block["thinking"])
            _must(genuine, f"{where}: Invalid `signature` in `thinking` block")


_CHAT_FIELDS = frozenset(
    {
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "max_tokens"),
        *("max_completion_tokens", "reasoning_effort", "temperature", "top_p", "n", "stop", "seed", "user"),
        *("response_format", "metadata", "id_slot"),
    }
)


def _refuse_chat(body: Any) -> None:
    """OpenAI's rules; and ``id_slot``, which llama-server knows."""
    _must(isinstance(body, dict), "the body must be an object")
    _known(body, _CHAT_FIELDS, "body")
    _must(body.get("model"), "you must provide a model parameter")
    _must("stream_options" not in body or body.get("stream"), "stream_options is only allowed when stream is on")
    _must("max_tokens" not in body or "max_completion_tokens" not in body, "max_tokens: set only one of the two")
    for tool in body.get("tools", []):
        _must(tool.get("type") == "function", "tools: type: unknown")
        _must(_TOOL_NAME.fullmatch(tool["function"]["name"]), "tools: function.name: does not match pattern")
        _must(tool["function"]["parameters"].get("type") == "object", "tools: parameters must be an object's schema")
    _refuse_twins([tool["function"]["name"] for tool in body.get("tools", [])])
    messages = body.get("messages")
    _must(isinstance(messages, list) and messages, "messages: [] is too short")
    awaited: set[str] = set()
    for place, message in enumerate(messages):
        awaited = _refuse_chat_message(message, awaited, f"messages.[{place}]")
    _must(not awaited, f"an assistant message with tool_calls must be followed by tool messages: {sorted(awaited)}")


def _refuse_chat_message(message: Mapping[str, Any], awaited: set[str], where: str) -> set[str]:
    role, content = message["role"], message.get("content")
    if role == "tool":
        _must(message["tool_call_id"] in awaited, f"{where}: 'tool' must be a response to a preceding 'tool_calls'")
        _must(isinstance(content, str), f"{where}: content: expected a string")
        return awaited - {message["tool_call_id"]}
    _must(not awaited, f"{where}: tool_call_ids did not have response messages: {sorted(awaited)}")
    match role:
        case "system" | "developer":
            _must(content, f"{where}: content is empty")
        case "user":
            _must(content, f"{where}: content is empty")
            for part in content if isinstance(content, list) else ():
                _refuse_part(part, where)
        case "assistant":
            calls = message.get("tool_calls")
            _must(calls is None or calls, f"{where}: tool_calls: [] is too short")
            _must(content or calls, f"{where}: content: expected a string, got null")
            for call in calls or ():
                _must(call.get("type") == "function" and call["id"], f"{where}: tool_calls: type and id are required")
                _must(isinstance(call["function"]["arguments"], str), f"{where}: arguments: expected a string")
            return {call["id"] for call in calls or ()}
        case _:
            raise Refusal(f"{where}: role: unknown")
    return set()


def _refuse_part(part: Mapping[str, Any], where: str) -> None:
    match part:
        case {"type": "text", "text": str(text)} if text.strip():
            return
        case {"type": "image_url", "image_url": {"url": str(url)}} if url.startswith(("data:image/", "https://")):
            return
    raise Refusal(f"{where}: a part is not understood")


def _last_text(messages: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    """The last text of the user and how many answers came since."""
    turn = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            turn += 1
        elif message["role"] == "user" and (text := _text_of(message["content"])):
            return text, turn
    return "", turn


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [block["text"] for block in content if block.get("type") == "text"]
    return "\n".join(text for text in texts if not text.startswith(IMAGES_OF_A_RESULT))


async def _run(server: ScriptedModelServer) -> None:
    async with server:
        print(server.url, flush=True)  # noqa: T201 - whoever started this process reads the address here
        await asyncio.Event().wait()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="A model provider by script.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer begins")
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--chunk-interval", type=float, default=0.0, help="seconds between chunks")
    arguments = parser.parse_args()
    server = ScriptedModelServer(
        port=arguments.port,
        latency=arguments.latency,
        chunks=arguments.chunks,
        chunk_interval=arguments.chunk_interval,
    )
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_run(server))


if __name__ == "__main__":
    main()
