"""A gateway by script for tests of its clients: a real HTTP server that speaks the gateway's contract, on 127.0.0.1.

``with FakeGateway().in_thread() as gateway`` serves at ``gateway.url``. A message chooses its script by its first word
(``SCRIPTS``); every other message is echoed. What was asked stands in ``gateway.asked``.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from services.gateway.rules.stream_fields import data_of
from shared.adapters.http.listening import listen
from shared.adapters.http.serve import serving
from shared.messages.run_events import STEP, EventType, RunEvent, id_order, terminal_id

TOKEN = "a-token-of-the-fake-gateway"
RUN = "01890000-0000-7000-8000-000000000001"
ANSWER = "01890000-0000-7000-8000-000000000002"
SESSION = "01890000-0000-7000-8000-00000000000a"
OTHER_SESSION = "01890000-0000-7000-8000-00000000000b"


@dataclass(frozen=True)
class Event:
    """One event of a script."""

    id: str
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Break:
    """The connection breaks here, once; ``politely`` it ends as if that were all."""

    politely: bool = False


@dataclass(frozen=True)
class Pause:
    """Nothing comes for a while; once, or every time somebody listens."""

    seconds: float
    always: bool = False


@dataclass(frozen=True)
class Hold:
    """Nothing comes until so many answers were given."""

    answers: int


Step = Event | Break | Pause | Hold

ACCEPTED = Event("0-1", "accepted", {"run_id": RUN, "conversation": "cli"})


def at(epoch: int, step: int, offset: int) -> str:
    """The id of an event."""
    return f"{epoch}-{step * STEP + offset}"


def attempt(epoch: int, number: int = 1, keep: str | None = None) -> Event:
    """A worker begins."""
    return Event(at(epoch, 0, 1), "attempt", {"epoch": epoch, "attempt": number, "keep": keep})


def approval(step: int, command: str, *, number: int = 1, of: int = 1, epoch: int = 1) -> Event:
    """A question, as the agent's worker asks it."""
    data = {
        "approval_id": f"01890000-0000-7000-8000-0000000000a{number}",
        "call_id": f"c{number}",
        "tool": "exec",
        "arguments": {"command": command},
        "text": f"May I use 'exec' with command = {command}? Answer yes to allow it; anything else means no.",
        "number": number,
        "of": of,
    }
    return Event(at(epoch, step, 20 + number), "approval", data)


def done(reply: str, *, epoch: int = 1, **more: Any) -> Event:
    """The end, with a bill."""
    outcome = {
        "reply": reply,
        "silent": False,
        "session_id": SESSION,
        "run_id": RUN,
        "tokens": {"input": 120, "output": 8, "cache_read": 1000, "cache_write": 0},
        "cost": 0.0123,
        "currency": "USD",
        "model": "fake-model-1",
        "turns": 1,
        "notices": [],
    }
    return Event(terminal_id(epoch), "done", {**outcome, **more})


def failed(error: str) -> Event:
    """The end without a reply."""
    data = {"error": error, "error_message": "Sorry.", "run_id": RUN, "reply": ""}
    return Event(terminal_id(1), "failed", data)


def echo(message: str) -> list[Step]:
    """The reply in two pieces."""
    reply = f"You said: {message}"
    half = len(reply) // 2
    return [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, half + 1), "delta", {"text": reply[:half]}),
        Event(at(1, 0, len(reply) + 1), "delta", {"text": reply[half:]}),
        done(reply),
    ]


SCRIPTS: dict[str, Sequence[Step]] = {
    "tools": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 12), "thinking", {"text": "Let me see."}),
        Event(at(1, 0, 25), "delta", {"text": "I will read."}),
        Event(at(1, 1, 1), "tool_started", {"call_id": "c1", "name": "read", "arguments": {"path": "MEMORY.md"}}),
        Event(
            at(1, 1, 2),
            "tool_finished",
            {"call_id": "c1", "name": "read", "ok": True, "duration_ms": 12, "preview": "notes"},
        ),
        Event(at(1, 2, 1), "notice", {"text": "The context is 80 % full."}),
        Event(at(1, 2, 12), "delta", {"text": "All is well."}),
        done("All is well.", turns=2, notices=["The context is 80 % full."]),
    ],
    "second-attempt": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 6), "delta", {"text": "first "}),
        Event(at(1, 0, 12), "delta", {"text": "draft "}),
        attempt(2, 2, keep="0-1"),
        Event(at(2, 0, 12), "delta", {"text": "second draft"}),
        done("second draft", epoch=2),
    ],
    "break": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 4), "delta", {"text": "one "}),
        Break(),
        Event(at(1, 0, 8), "delta", {"text": "two "}),
        Break(politely=True),
        Event(at(1, 0, 13), "delta", {"text": "three"}),
        done("one two three"),
    ],
    "break-early": [Break(), *echo("break-early")],
    "silent": [ACCEPTED, attempt(1), done("", silent=True)],
    "fail": [ACCEPTED, attempt(1), failed("The model rejected the request: context too long")],
    "retry": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 4), "delta", {"text": "half"}),
        Event(at(1, 0, 5), "retry", {"attempt": 1, "wait_seconds": 0.5, "reason": "overloaded", "keep": "0-1"}),
        Event(at(1, 0, 11), "delta", {"text": "whole"}),
        done("whole"),
    ],
    "slow": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 6), "delta", {"text": "I am "}),
        Pause(30, always=True),
        done("I am slow"),
    ],
    "ask": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 13), "delta", {"text": "I would list."}),
        approval(1, "ls"),
        Hold(1),
        Event(at(2, 1, 1), "tool_started", {"call_id": "c1", "name": "exec", "arguments": {"command": "ls"}}),
        Event(at(2, 1, 2), "tool_finished", {"call_id": "c1", "name": "exec", "ok": True, "duration_ms": 4}),
        Event(at(2, 2, 11), "delta", {"text": "It is done."}),
        done("It is done.", epoch=2),
    ],
    "ask-twice": [
        ACCEPTED,
        attempt(1),
        approval(1, "ls", number=1, of=2),
        approval(1, "pwd", number=2, of=2),
        Hold(1),
        approval(3, "rm notes", epoch=2),
        Hold(2),
        done("Both are done.", epoch=3),
    ],
    "ask-then-fail": [ACCEPTED, attempt(1), approval(1, "ls"), Hold(1), failed("The model is gone")],
    "ask-later": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 6), "delta", {"text": "I am "}),
        Pause(1.5),
        approval(1, "ls"),
        Hold(1),
        done("Asked and answered.", epoch=2),
    ],
    "hush": [ACCEPTED, attempt(1), Pause(1.0), done("back again")],
    "escape": [
        ACCEPTED,
        attempt(1),
        Event(at(1, 0, 30), "delta", {"text": "\x1b]52;c;ZXZpbA==\x07\x1b[2Jred"}),
        done("\x1b]52;c;ZXZpbA==\x07\x1b[2Jred"),
    ],
}

SESSIONS = [
    {
        "session_id": OTHER_SESSION, "contact": "Claudio", "conversation": "telegram:7", "created_at": 1_760_000_000.5,
        "model": "fake-model-1", "message_count": 4, "compaction_count": 0, "context_tokens": 900, "context_pct": 1,
        "cost_usd": 0.5, "cost": 0.5, "currency": "USD", "log_files": 0, "log_bytes": 0,
    },
    {
        "session_id": SESSION, "contact": "cli", "conversation": "cli", "created_at": 1_760_000_100.0,
        "model": "fake-model-1", "message_count": 12, "compaction_count": 2, "context_tokens": 12_345,
        "context_pct": 6, "cost_usd": 1.25, "cost": 1.25, "currency": "USD", "log_files": 1, "log_bytes": 2048,
    },
]  # fmt: skip

HISTORY = [
    {"timestamp": 1_760_000_101.0, "type": "message", "role": "user", "content": "hello", "from": "cli"},
    {
        "timestamp": 1_760_000_102.0, "type": "message", "role": "assistant", "text": "Hi there.",
        "tool_calls": [{"id": "c1", "name": "read", "arguments": {"path": "MEMORY.md"}}],
    },
    {"timestamp": 1_760_000_103.0, "type": "tool_result", "tool_use_id": "c1", "content": "a note"},
]  # fmt: skip

COST = {
    "models": [
        {"model": "fake-model-1", "input_tokens": 1000, "output_tokens": 200, "cache_read_tokens": 5000,
         "cache_write_tokens": 10, "cost_usd": 1.5, "currency": "USD", "calls": 3},
    ],
    "total_cost": 1.5,
}  # fmt: skip

MONITOR: dict[str, Any] = {
    "state": "thinking", "contact": "cli", "session_id": SESSION, "model": "fake-model-1", "turn": 2,
    "tools_in_flight": [], "sessions": [],
    "services": [{"service": "gateway", "id": "1", "host": "here", "pid": "42", "state": "ready", "loop_lag_ms": "1",
                  "rss_bytes": "50000000", "observed_at": "2026-01-01T00:00:00+00:00"}],
}  # fmt: skip

DEAD_RUN = "01890000-0000-7000-8000-0000000000d1"
DEAD_WEBHOOK = "01890000-0000-7000-8000-0000000000d2"
WORKER = "01890000-0000-7000-8000-0000000000e1"

DEAD: list[dict[str, Any]] = [
    {
        "id": DEAD_RUN, "kind": "run", "state": "dead", "reason": "Four workers died with it.", "conversation": "cli",
        "about": "message", "run_id": DEAD_RUN, "at": "2026-05-21T21:33:00+00:00", "attempts": 4,
        "last_worker": WORKER, "last_step": 2, "retried_as": None,
    },
    {
        "id": DEAD_WEBHOOK, "kind": "webhook", "state": "dead", "reason": "no answer within 10 s; tried 31 times",
        "conversation": "cli", "about": "callback", "run_id": RUN, "at": "2026-05-20T21:33:00+00:00", "attempts": 31,
        "last_worker": None, "last_step": None, "retried_as": None,
    },
]  # fmt: skip

SCHEDULES: list[dict[str, Any]] = [
    {
        "id": f"sched-{number}", "kind": "reminder", "state": state, "text": text, "target": None,
        "conversation": "cli", "contact": "me", "due_at": "2026-05-21T21:33:00+00:00", "attempts": 0,
        "created_at": "2026-05-20T21:33:00+00:00", "run_id": RUN if state == "fired" else None, "reason": reason,
    }
    for number, state, text, reason in (
        (3, "pending", "call mum", None), (2, "failed", "weed\x1b[2J", "no room"), (1, "fired", "tea", None)
    )
]  # fmt: skip

STORY: dict[str, Any] = {
    "run_id": RUN, "conversation": "cli", "ordinal": 3, "kind": "message", "state": "done", "source": "cli",
    "tier": "full", "attempts": 2, "accepted_at": "2026-05-21T21:33:00+00:00",
    "finished_at": "2026-05-21T21:33:12+00:00", "merged_into": None, "retry_of": None, "retried_as": None,
    "error": None,
    "times": {"total_seconds": 12.0, "for_a_worker_seconds": 0.02, "in_model_seconds": 1.8, "in_tools_seconds": 0.0,
              "waiting_seconds": 0.0},
    "costs": [{"currency": "USD", "cost": 0.0042, "calls": 2, "estimated": 1, "unsettled": 0}],
    "story": [
        {"what": "accepted", "at": "", "after_seconds": 0.0, "source": "cli", "ordinal": 3},
        {"what": "claimed", "at": "", "after_seconds": 0.02, "worker": WORKER, "attempt": 1, "epoch": 7},
        {"what": "worker_fenced", "at": "", "after_seconds": 7.5, "worker": WORKER, "host": "here", "pid": 42},
        {"what": "ended", "at": "", "after_seconds": 12.0, "state": "done"},
    ],
}  # fmt: skip


class FakeGateway:
    """Its scripts, and what it was asked."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.url = ""
        self.asked: list[tuple[str, str, Mapping[str, str], Any]] = []
        self.refuse: tuple[int, Mapping[str, Any], Mapping[str, str]] | None = None
        self.ready = True
        self.stored_after = 0
        """How many looks it takes until a question is stored that was told."""
        self.ends_at_once = True
        """Whether a run that is cancelled ends while its caller waits."""
        self._answers = 0
        self._answer_key = ""
        self._held = 0
        self._ended = ""
        self._runs: dict[str, Sequence[Step]] = {}
        self._key = ""
        self._past: set[int] = set()

    @contextlib.contextmanager
    def in_thread(self) -> Iterator["FakeGateway"]:
        """Serve until the block ends."""
        listener = listen("127.0.0.1", 0)
        self.url = "http://{}:{}".format(*listener.getsockname()[:2])
        loop, stop, up = asyncio.new_event_loop(), asyncio.Event(), threading.Event()

        async def serve() -> None:
            async with serving(self._app(), listener, grace_seconds=1):
                up.set()
                await stop.wait()

        def work() -> None:
            with contextlib.closing(loop):
                loop.run_until_complete(serve())

        thread = threading.Thread(target=work)
        thread.start()
        assert up.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(20)

    def ask_now(self) -> None:
        """The run in hand comes to its question, whoever follows it."""
        self._held = max(answers for answers, _ in asked_in(self._runs[RUN]))

    def answer_elsewhere(self) -> None:
        """Somebody else answers what is open."""
        self._answers = self._held

    def bodies(self, path: str) -> list[Any]:
        """What was posted to a path."""
        return [body for _, where, _, body in self.asked if where == path]

    def _app(self) -> Starlette:
        def under(path: str, answer: Any, *methods: str) -> Route:
            return Route(f"/api/v1{path}", self._guarded(answer), methods=methods or ("GET",))

        return Starlette(
            routes=[
                Route("/readyz", self._readyz),
                Route("/api/v1/status", self._status),
                under("/chat", self._chat, "POST"),
                under("/chat/stream", self._stream, "POST"),
                under("/runs/{run}", self._run),
                under("/runs/{run}/events", self._events),
                under("/runs/{run}/cancel", self._cancel, "POST"),
                under("/sessions", self._sessions),
                under("/sessions/reset", self._reset, "POST"),
                under("/sessions/{session}/history", self._history),
                under("/cost", self._cost),
                under("/monitor", self._monitor),
                under("/runs/{run}/story", self._story),
                under("/schedules", self._schedules),
                under("/schedules/{id}", self._cancel_schedule, "DELETE"),
                under("/dead", self._dead),
                under("/dead/{id}", self._dead_letter),
                under("/dead/{id}/{order}", self._decide, "POST"),
            ],
        )

    def _guarded(self, answer: Any) -> Any:
        async def guard(request: Request) -> Response:
            body = await request.json() if request.method == "POST" else None
            self.asked.append((request.method, request.url.path, dict(request.headers), body))
            if request.headers.get("authorization") != f"Bearer {self.token}":
                return JSONResponse({"error": "unauthorized"}, 401)
            if self.refuse is not None:
                status, said, headers = self.refuse
                return JSONResponse(said, status, dict(headers))
            return await answer(request, body)  # type: ignore[no-any-return]

        return guard

    async def _readyz(self, _: Request) -> Response:
        checks = {"postgres": "ok" if self.ready else "no answer", "redis": "ok"}
        body = {"status": "ready" if self.ready else "not ready", "service": "gateway", "checks": checks}
        return JSONResponse(body, 200 if self.ready else 503)

    async def _status(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "model": "fake-model-1", "agent": "Lucyd", "version": "0"})

    async def _chat(self, request: Request, body: Any) -> Response:
        steps = script_of(body["message"])
        run, answered = RUN, 0
        if request.headers.get("idempotency-key", "") == self._answer_key:
            run, steps, answered = ANSWER, self._runs[RUN], self._answers
        asked = [each for each in asked_in(steps) if each[0] > answered]
        if asked:
            self._held = asked[0][0]
            text = "\n".join(str(each.data["text"]) for each in asked[0][1])
            approvals = [{"approval_id": each.data["approval_id"], "tool": "exec"} for each in asked[0][1]]
            told = {"state": "waiting", "reply": text, "run_id": run, "session_id": SESSION, "approvals": approvals}
            return JSONResponse(told, 202)
        end = next(each for each in steps if isinstance(each, Event) and each.type in {"done", "failed"})
        return JSONResponse({**end.data, "agent": "Lucyd"})

    async def _stream(self, request: Request, body: Any) -> Response:
        key = request.headers.get("idempotency-key", "")
        assert key
        if self._state() == "waiting" or key == self._answer_key:
            if key != self._answer_key:
                self._answer_key, self._answers = key, self._answers + 1
            return StreamingResponse(self._answer_frames("0-0"), media_type="text/event-stream")
        if key != self._key:
            self._key, self._past = key, set()
            self._answers = self._held = 0
            self._answer_key = self._ended = ""
            self._runs[RUN] = script_of(body["message"])
        return self._told("0-0")

    def _state(self) -> str:
        return self._ended or ("waiting" if self._held > self._answers else "running")

    async def _run(self, request: Request, _: Any) -> Response:
        return self._run_body(request.path_params["run"])

    def _run_body(self, run: str, status: int = 200) -> Response:
        if run not in {RUN, ANSWER}:
            return JSONResponse({"error": "no such run"}, 404)
        outcome: dict[str, Any] | None = {"state": self._ended, "run_id": run} if self._ended else None
        if outcome is not None and run == ANSWER:
            outcome["merged_into"] = RUN
        finished = "2026-05-21T21:33:12+00:00" if self._ended else None
        state = "merged" if run == ANSWER else self._state()
        return JSONResponse({"run_id": run, "state": state, "finished_at": finished, "outcome": outcome}, status)

    async def _cancel(self, request: Request, _: Any) -> Response:
        run = request.path_params["run"]
        if self.ends_at_once:
            self._ended = self._ended or "cancelled"
        return self._run_body(run, 200 if self._ended else 202)

    async def _answer_frames(self, after: str) -> AsyncIterator[bytes]:
        """An answer's own events: that it is taken, and the end of the run that asked."""
        if id_order(after) < id_order(ACCEPTED.id):
            yield frame(Event(ACCEPTED.id, "accepted", {"run_id": ANSWER, "conversation": "cli"}))
        while self._answers < len(asked_in(self._runs[RUN])):
            await asyncio.sleep(0.02)
        end = self._runs[RUN][-1]
        assert isinstance(end, Event)
        state = {"done": "done", "failed": "failed"}[end.type]
        yield frame(Event(end.id, "merged", {**end.data, "state": state, "run_id": ANSWER, "merged_into": RUN}))

    async def _events(self, request: Request, _: Any) -> Response:
        if request.path_params["run"] == ANSWER:
            told = self._answer_frames(request.headers["last-event-id"])
            return StreamingResponse(told, media_type="text/event-stream")
        if request.path_params["run"] not in self._runs:
            return JSONResponse({"error": "no such run"}, 404)
        return self._told(request.headers["last-event-id"])

    def _told(self, after: str) -> Response:
        return StreamingResponse(self._frames(after), media_type="text/event-stream")

    async def _frames(self, after: str) -> AsyncIterator[bytes]:
        yield b": keep-alive\n\n"
        for place, step in enumerate(self._runs[RUN]):
            match step:
                case Break() if place not in self._past:
                    self._past.add(place)
                    if step.politely:
                        return
                    raise ConnectionAbortedError("by script")
                case Pause() if step.always or place not in self._past:
                    self._past.add(place)
                    await asyncio.sleep(step.seconds)
                case Hold():
                    self._held = max(self._held, step.answers)
                    while self._answers < step.answers:
                        await asyncio.sleep(0.02)
                case Event():
                    if step.type in {"done", "failed"}:
                        self._ended = self._ended or step.type
                    if id_order(step.id) > id_order(after):
                        yield frame(step)

    async def _sessions(self, _: Request, __: Any) -> Response:
        return JSONResponse({"sessions": SESSIONS, "agent": "Lucyd"})

    async def _history(self, request: Request, _: Any) -> Response:
        session = request.path_params["session"]
        full = request.query_params.get("full") == "true"
        events = [each for each in HISTORY if full or each["type"] == "message"] if session == SESSION else []
        return JSONResponse({"session_id": session, "events": events, "agent": "Lucyd"})

    async def _cost(self, request: Request, _: Any) -> Response:
        period = request.query_params["period"]
        return JSONResponse({"period": period, **(COST if period != "week" else {"models": [], "total_cost": 0})})

    async def _monitor(self, _: Request, __: Any) -> Response:
        return JSONResponse(MONITOR)

    async def _story(self, request: Request, _: Any) -> Response:
        run = request.path_params["run"]
        if run == ANSWER:
            return JSONResponse({**STORY, "run_id": ANSWER, "state": "merged", "merged_into": RUN})
        if not RUN.startswith(run):
            return JSONResponse({"error": "no such run"}, 404)
        if RUN not in self._runs:
            return JSONResponse(STORY)
        if self._state() == "waiting" and self.stored_after:
            self.stored_after -= 1
            return JSONResponse({**STORY, "state": "running", "finished_at": None, "story": []})
        asked = [{"what": "approval_asked", "at": "", "after_seconds": 0.1, "tool": "exec"}] * self._held
        decided = [{"what": "approval_decided", "at": "", "after_seconds": 0.2, "tool": "exec"}] * self._answers
        finished = STORY["finished_at"] if self._ended else None
        return JSONResponse({**STORY, "state": self._state(), "finished_at": finished, "story": asked + decided})

    async def _schedules(self, request: Request, _: Any) -> Response:
        state = request.query_params.get("state")
        return JSONResponse({"schedules": [each for each in SCHEDULES if state in {None, each["state"]}]})

    async def _cancel_schedule(self, request: Request, _: Any) -> Response:
        found = [each for each in SCHEDULES if each["id"] == request.path_params["id"]]
        if not found:
            return JSONResponse({"error": "nothing of that id is scheduled"}, 404)
        if found[0]["state"] != "pending":
            return JSONResponse({"error": "it has happened already"}, 409)
        return JSONResponse({"cancelled": True, "id": found[0]["id"]})

    async def _dead(self, _: Request, __: Any) -> Response:
        return JSONResponse({"dead": DEAD})

    async def _dead_letter(self, request: Request, _: Any) -> Response:
        found = [letter for letter in DEAD if letter["id"] == request.path_params["id"]]
        unknown = JSONResponse({"error": "nothing that was given up has this id"}, 404)
        return JSONResponse(found[0]) if found else unknown

    async def _decide(self, request: Request, _: Any) -> Response:
        id, order = request.path_params["id"], request.path_params["order"]
        found = [letter for letter in DEAD if letter["id"] == id]
        if not found:
            return JSONResponse({"error": "nothing that was given up has this id"}, 404)
        done = {"retry": "retried", "drop": "dropped"}[order]
        new = {"run_id": RUN} if (order, found[0]["kind"]) == ("retry", "run") else {}
        return JSONResponse({done: True, "id": id, "kind": found[0]["kind"], **new})

    async def _reset(self, _: Request, body: Any) -> Response:
        if body["target"] == "nobody":
            return JSONResponse({"reset": False, "reason": "no session of nobody"})
        return JSONResponse({"reset": True, "target": body["target"], "count": 2})


def script_of(message: str) -> Sequence[Step]:
    """The script that a message chooses."""
    return SCRIPTS.get(message.split(" ", 1)[0]) or echo(message)


def asked_in(steps: Sequence[Step]) -> list[tuple[int, list[Event]]]:
    """The questions of a script, those that are answered together in one, with the number of that answer."""
    found: list[tuple[int, list[Event]]] = []
    open_ones: list[Event] = []
    for step in steps:
        if isinstance(step, Event) and step.type == "approval":
            open_ones.append(step)
        elif isinstance(step, Hold):
            found.append((step.answers, open_ones))
            open_ones = []
    return found


def frame(event: Event) -> bytes:
    """As it goes over the wire."""
    told = data_of(RunEvent(event.id, cast(EventType, event.type), event.data))
    return f"id: {event.id}\nevent: {event.type}\ndata: {json.dumps(told)}\n\n".encode()
