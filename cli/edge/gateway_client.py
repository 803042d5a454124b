"""Talks HTTP with the gateway; the only place that does. Every wait is bounded, and every fault is one sentence."""

import contextlib
import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4

import httpx2

from cli.edge.address import Address
from cli.rules.diagnosis import GatewayState
from cli.rules.failure import Failure, Unreachable
from cli.rules.follower import Follower
from cli.rules.refusal import error_body, not_there, refusal
from shared.messages.run_events import EventType, RunEvent

Json = Mapping[str, Any]
Asked = TypeVar("Asked")

_TAKEN = frozenset({200, 202})
LARGEST_EVENT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds. ``silence``: without a byte of a stream, which has a sign of life every 15 s."""

    connect: float = 5.0
    answer: float = 30.0
    silence: float = 60.0
    reply: float = 3700.0
    first_pause: float = 0.25
    resumes: int = 5


class _Broken(Exception):
    """The connection broke, or what came over it made no sense."""


class Gateway:
    """One gateway, over one pool of connections."""

    def __init__(self, address: Address, client: httpx2.Client, patience: Patience) -> None:
        self.url = address.url
        self._token_known = address.token is not None
        self._client = client
        self._patience = patience

    def status(self) -> Json:
        """Version, models, queue; needs no token."""
        return self._get("/status")

    def sessions(self) -> list[Json]:
        """All active sessions."""
        found = self._get("/sessions").get("sessions")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def plugins(self) -> list[Json]:
        """The plugins of all workers."""
        found = self._get("/plugins").get("plugins")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def history(self, session_id: str, *, full: bool) -> Json:
        """What was said in a session; an unknown one has no events."""
        return self._get(f"/sessions/{quote(session_id, safe='')}/history", {"full": "true"} if full else {})

    def cost(self, period: str) -> Json:
        """What the models cost."""
        return self._get("/cost", {"period": period})

    def monitor(self) -> Json:
        """What goes on."""
        return self._get("/monitor")

    def reset(self, target: str) -> Json:
        """End sessions; ``{"reset": false, "reason": ...}`` when there was none."""
        return self._json("POST", "/sessions/reset", body={"target": target})

    def dead(self) -> list[Json]:
        """What was given up and not yet decided about."""
        found = self._get("/dead").get("dead")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def dead_letter(self, id: str) -> Json:
        """One thing that was given up."""
        return self._get(f"/dead/{quote(id, safe='')}")

    def retry_dead(self, id: str) -> Json:
        """Try it once more; asking again does nothing more."""
        return self._json("POST", f"/dead/{quote(id, safe='')}/retry", body={})

    def drop_dead(self, id: str) -> Json:
        """Let it be; asking again does nothing more."""
        return self._json("POST", f"/dead/{quote(id, safe='')}/drop", body={})

    def schedules(self, state: str | None) -> list[Json]:
        """What is to come later, of one state or of all."""
        found = self._get("/schedules", {"limit": "200", **({"state": state} if state else {})}).get("schedules")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def cancel_schedule(self, id: str) -> Json:
        """Take one back; asking again does nothing more."""
        name = f"sched-{id}" if id.isascii() and id.isdecimal() else id
        return self._json("DELETE", f"/schedules/{quote(name, safe='')}")

    def search_memory(self, query: str, sender: str, limit: int) -> Json:
        """What is known to a person, and stands in files."""
        return self._get("/memory/search", {"q": query, "sender": sender, "limit": str(limit)})

    def story(self, run: str) -> Json:
        """What became of a message; the run's id may be cut short."""
        return self._get(f"/runs/{quote(run, safe='')}/story")

    def run(self, run: str) -> Json:
        """What is known of a run."""
        return self._get(f"/runs/{quote(run, safe='')}")

    def cancel(self, run: str) -> Json:
        """End a run; returns it once its end is stored, or without an end when that takes longer than usual."""
        return self._json("POST", f"/runs/{quote(run, safe='')}/cancel", body={})

    def chat(self, body: Json, key: str | None = None) -> str:
        """The JSON text of ``/chat`` once the run has ended, or asks something; that has ``"state": "waiting"``.

        A broken connection is taken up again under one key. Under the ``key`` of a stream it is about that one's run.
        """
        headers = {"Idempotency-Key": key or str(uuid4())}

        def ask() -> str:
            answer = self._ask("POST", "/chat", body=body, headers=headers, within=self._patience.reply)
            if answer.status_code not in _TAKEN:
                raise self._refused(answer)
            if not error_body(answer.text):
                raise Failure(_stranger(self.url))
            return answer.text

        return self._insist(ask)

    def hand_over(self, body: Json) -> None:
        """Wait only until the message is stored; the agent answers by itself."""
        follower, key = Follower(), str(uuid4())

        def ask() -> None:
            # The status comes after the message was stored, and before anything is told of its run.
            with contextlib.closing(self._frames(body, follower, key, again=False)) as frames:
                next(frames)

        self._insist(ask)

    def follow(self, follower: Follower) -> Generator[RunEvent, None, None]:
        """The events of a run that ``follower`` knows, from where it stands; else as ``stream``."""
        return self.stream({}, follower)

    def stream(self, body: Json, follower: Follower, key: str | None = None) -> Generator[RunEvent, None, None]:
        """The events of a new run, each once, until its end.

        A broken connection is taken up where it broke, five times in a row at most. ``follower`` knows the run's id
        as soon as it is accepted. Raises ``Failure`` when the gateway refuses, or can't be reached any more.
        """
        key, broken = key or str(uuid4()), 0
        while True:
            try:
                with contextlib.closing(self._frames(body, follower, key, again=broken > 0)) as frames:
                    for frame in frames:
                        if frame is not None and follower.takes(event := _event(frame)):
                            broken = 0
                            yield event
                            if event.terminal:
                                return
            except _Broken:
                pass
            broken += 1
            if broken > self._patience.resumes:
                raise Failure(_gave_up(self.url, follower.run_id))
            self._pause(broken)

    def look(self) -> GatewayState:
        """Whether it is there, ready, and takes our token; raises nothing."""
        try:
            ready = self._ask("GET", "/readyz", under="")
            listed = self._ask("GET", "/sessions")
        except (_Broken, Failure):
            return GatewayState(self.url, answers=False)
        body = error_body(ready.text)
        checks = body.get("checks")
        return GatewayState(
            self.url,
            answers=True,
            is_lucyd=body.get("service") == "gateway",
            ready=ready.status_code == 200,
            # A good token may lack a scope (403), or be used too often: then its limit is told, a wrong one's is not.
            token_accepted=listed.status_code != 401
            and not (listed.status_code == 429 and "RateLimit-Limit" not in listed.headers),
            token_known=self._token_known,
            checks={str(name): str(told) for name, told in checks.items()} if isinstance(checks, dict) else None,
        )

    def _insist(self, ask: Callable[[], Asked]) -> Asked:
        """Ask until a connection holds, each time under the same key, at most as often as a stream is taken up."""
        for broken in range(self._patience.resumes + 1):
            if broken:
                self._pause(broken)
            try:
                return ask()
            except _Broken:
                pass
            except Unreachable:
                if not broken:
                    raise  # it was never there; later it is one that starts again
        raise Failure(_gave_up(self.url, None))

    def _frames(
        self, body: Json, follower: Follower, key: str, *, again: bool
    ) -> Generator[httpx2.ServerSentEvent | None, None, None]:
        """What comes over one connection; first ``None``, once the gateway has agreed."""
        timeout = self._timeout(self._patience.silence)
        if follower.run_id is None:
            # The same key finds the run that the broken connection may have made.
            headers = {"Idempotency-Key": key, "Accept": "text/event-stream"}
            opened = self._client.stream("POST", "/api/v1/chat/stream", json=body, headers=headers, timeout=timeout)
        else:
            path = f"/api/v1/runs/{quote(follower.run_id, safe='')}/events"
            headers = {"Accept": "text/event-stream", "Last-Event-ID": follower.last_id or ""}
            opened = self._client.stream("GET", path, headers=headers, timeout=timeout)
        try:
            with opened as answer:
                if answer.status_code != 200:
                    answer.read()
                    if again and answer.status_code >= 500:
                        raise _Broken
                    raise self._refused(answer)
                if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                    raise Failure(_stranger(self.url))
                yield None
                yield from httpx2.EventSource(answer, max_event_size=LARGEST_EVENT)
        except httpx2.TransportError as fault:
            if isinstance(fault, httpx2.ConnectError | httpx2.ConnectTimeout) and not again and not follower.run_id:
                raise Unreachable(not_there(self.url)) from fault
            raise _Broken from fault

    def _pause(self, broken: int) -> None:
        time.sleep(self._patience.first_pause * 2 ** (broken - 1))

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        return self._json("GET", path, query=query)

    def _json(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        try:
            answer = self._ask(method, path, query=query, body=body)
        except _Broken as fault:
            raise Failure(f"The connection with {self.url} broke; try again.") from fault
        if answer.status_code not in _TAKEN:
            raise self._refused(answer)
        try:
            found = json.loads(answer.text, parse_float=Decimal)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Failure(_stranger(self.url))
        return found

    def _ask(
        self,
        method: str,
        path: str,
        *,
        under: str = "/api/v1",
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        within: float | None = None,
    ) -> httpx2.Response:
        try:
            return self._client.request(
                method,
                under + path,
                params=query or None,
                json=body,
                headers=dict(headers or {}),
                timeout=self._timeout(self._patience.answer if within is None else within),
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as fault:
            raise Unreachable(not_there(self.url)) from fault
        except httpx2.ReadTimeout as fault:
            raise Failure(f"Lucyd at {self.url} took too long to answer; try again.") from fault
        except (httpx2.TransportError, httpx2.DecodingError) as fault:
            raise _Broken from fault

    def _timeout(self, read: float) -> httpx2.Timeout:
        return httpx2.Timeout(connect=self._patience.connect, read=read, write=self._patience.answer, pool=5.0)

    def _refused(self, answer: httpx2.Response) -> Failure:
        after = answer.headers.get("Retry-After")
        text = refusal(answer.status_code, answer.text, self.url, retry_after=after, token_sent=self._token_known)
        return Failure(text)


def _event(frame: httpx2.ServerSentEvent) -> RunEvent:
    try:
        data = json.loads(frame.data, parse_float=Decimal)
    except ValueError as fault:
        raise _Broken from fault
    if not isinstance(data, dict):
        raise _Broken
    event = RunEvent(frame.id, cast(EventType, frame.event), data)
    if not event.terminal and (words := data.pop("thinking", None) or data.pop("status", None)) is not None:
        data["text"] = words  # on the wire only a piece of the answer is called so
    return event


def _stranger(url: str) -> str:
    return f"What answers at {url} is not Lucyd's gateway."


def _gave_up(url: str, run_id: str | None) -> str:
    if run_id is None:
        return f"The connection with {url} broke again and again; `lucyd history` tells whether the message arrived."
    return (
        f"The connection with {url} broke again and again; the run {run_id} goes on, and `lucyd history` will show it."
    )


@contextlib.contextmanager
def connect(address: Address, patience: Patience | None = None) -> Iterator[Gateway]:
    """A gateway for as long as the block lasts; nothing is sent yet. Raises ``Failure`` for a token that is none."""
    headers = {"User-Agent": "lucyd-cli"}
    if address.token is not None:
        if not (address.token.isascii() and address.token.isprintable()):
            raise Failure("LUCYD_HTTP_TOKEN has characters that no header can carry; use plain letters and digits.")
        headers["Authorization"] = f"Bearer {address.token}"
    # A proxy of the environment is for other machines; it could not reach this one's own address.
    with httpx2.Client(base_url=address.url, headers=headers, trust_env=not address.local) as client:
        yield Gateway(address, client, patience or Patience())
