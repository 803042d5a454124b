"""Services of speech by script, on their own wires: ElevenLabs, a Whisper in the cloud, and one of whisper.cpp.

Each POST plays the next act of the script, the last one for ever: a status, ``"cut"``, ``"flood"``, ``"empty"``,
``"hang"``, a URL to redirect to, or bytes to answer with.
"""

import contextlib
import email.parser
import email.policy
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = int | str | bytes


@dataclass(frozen=True)
class Spoken:
    """One POST: JSON, or the parts of a form with their types and names of files."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Part:
    """A part of a form."""

    data: bytes
    content_type: str
    filename: str | None


class SpeechServer:
    """Where plugins call in a test."""

    def __init__(self, script: Sequence[Act]) -> None:
        self.script = list(script)
        self.received: list[Spoken] = []
        self.url = ""
        self.over = threading.Event()
        self._lock = threading.Lock()

    def next_act(self, spoken: Spoken) -> Act:
        """Note what came, and what to do about it."""
        with self._lock:
            self.received.append(spoken)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_speech: SpeechServer

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        act = self.server_of_speech.next_act(Spoken(self.path, headers, _read(headers["content-type"], raw)))
        match act:
            case int():
                self._answer(act, b'{"detail": "canary of the service"}')
            case bytes():
                self._answer(200, act)
            case "empty":
                self._answer(200, b"")
            case "flood":
                self.send_response(200)
                self.send_header("Content-Length", "1000000000")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while not self.server_of_speech.over.is_set():
                        self.wfile.write(b"x" * 1_000_000)
                self.close_connection = True
            case str() if act.startswith("http"):
                self.send_response(307)
                self.send_header("Location", act)
                self.send_header("Content-Length", "0")
                self.end_headers()
            case "hang":
                self.server_of_speech.over.wait(60)
                self.close_connection = True
            case _:
                self.close_connection = True

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


def _read(content_type: str, raw: bytes) -> Any:
    if content_type.startswith("application/json"):
        return json.loads(raw)
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + raw)
    parts: dict[str, Part] = {}
    for part in form.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        parts[name] = Part(data, part.get_content_type(), part.get_filename())
    return parts


@contextlib.contextmanager
def speaking(*script: Act) -> Iterator[SpeechServer]:
    """A server on a free port."""
    told = SpeechServer(script)
    handler = type("Handler", (_Handler,), {"server_of_speech": told})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        told.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
