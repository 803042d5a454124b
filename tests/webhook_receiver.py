"""A receiver of webhooks by script: a real HTTP server on 127.0.0.1.

Each POST plays the next act of the script, the last one for ever: a status, ``"hang"`` (no answer until the end),
``"cut"`` (the connection breaks without an answer), ``"flood"`` (200, and a body without end), ``"away"`` (a redirect).
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = int | str


@dataclass(frozen=True)
class Received:
    """One POST, as it came."""

    path: str
    headers: Mapping[str, str]
    body: Any
    raw: bytes


class Receiver:
    """Where webhooks go in a test."""

    def __init__(self, script: Sequence[Act]) -> None:
        self.script = list(script)
        self.received: list[Received] = []
        self.url = ""
        self.over = threading.Event()
        self._lock = threading.Lock()

    def next_act(self, received: Received) -> Act:
        """Note what came, and what to do about it."""
        with self._lock:
            self.received.append(received)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        act = self.receiver.next_act(Received(self.path, headers, json.loads(raw), raw))
        match act:
            case "hang":
                self.receiver.over.wait(60)
                self.close_connection = True
            case "cut":
                self.close_connection = True
            case "flood":
                self._flood()
            case "away":
                self._answer(307, {"Location": f"{self.receiver.url}/elsewhere"})
            case int():
                self._answer(act, {})
            case _:
                raise AssertionError(act)

    def _answer(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _flood(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not self.receiver.over.is_set():
                self.wfile.write(b"x" * 1024)

    def log_message(self, *_: object) -> None:
        """Silence."""


@contextlib.contextmanager
def open_receiver(*script: Act) -> Iterator[Receiver]:
    """A receiver for as long as the block lasts."""
    receiver = Receiver(script)
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        thread.join(10)
        server.server_close()
