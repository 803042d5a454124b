"""A model provider that costs next to nothing: ``python -m bench.model_server`` prints its address and serves.

    POST /v1/chat/completions    OpenAI's wire, streamed        POST /v1/messages    Anthropic's wire, streamed
    GET  /__notes                when what was asked and sent since the last look, then forgotten
    GET  /__last                 the body of the newest request

It parses no JSON: the token and the latency stand in a mark of the text, which is searched from the end of the body,
and the answer was written once, when the server started. The ten pieces go out evenly over the latency, each by itself;
with no latency they go out as one. Times are ``time.monotonic_ns`` and, for the receipt, ``time.time_ns`` too: on one
machine both are the same clocks as everybody else's.
"""

import argparse
import asyncio
import socket
import sys
import time
from collections.abc import Callable
from typing import cast

import orjson

from bench.http_line import content_length
from bench.loops import run
from bench.wire import LAST_CHUNK, Answer, Wire, find_mark

Note = tuple[str, int, int, list[int]]
"""Token, receipt on the monotonic clock, receipt on the wall clock, when each piece was sent."""

_PATHS: dict[bytes, Wire] = {b"/v1/chat/completions": "openai", b"/v1/messages": "anthropic"}


class Book:
    """What all connections note."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.heard: set[str] = set()
        self.last = b"{}"
        self.answers: dict[Wire, Answer] = {"openai": Answer.on("openai"), "anthropic": Answer.on("anthropic")}

    def take_notes(self) -> list[Note]:
        """The notes since the last call."""
        notes, self.notes = self.notes, []
        return notes


class Connection(asyncio.Protocol):
    """One kept-alive connection; requests on it follow each other."""

    def __init__(self, book: Book, loop: asyncio.AbstractEventLoop) -> None:
        self._book = book
        self._loop = loop
        self._transport: asyncio.WriteTransport | None = None
        self._parts: list[bytes] = []
        self._have = 0
        self._want: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Who asked has gone: nothing more is sent."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Collect until the request is whole, by the length that its head tells."""
        self._parts.append(data)
        self._have += len(data)
        if self._want is None:
            so_far = b"".join(self._parts)
            self._parts = [so_far]
            end = so_far.find(b"\r\n\r\n")
            if end < 0:
                return
            self._want = end + 4 + content_length(so_far[:end])
        if self._have >= self._want:
            request = b"".join(self._parts)
            self._parts, self._have, self._want = [], 0, None
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        path = request[: request.find(b"\r\n")].split(b" ")[1]
        wire = _PATHS.get(path)
        mark = find_mark(request) if wire else None
        if path == b"/__notes":
            self._say_json(self._book.take_notes())
        elif path == b"/__last":
            self._say_whole(b"200 OK", self._book.last)
        elif wire is None or mark is None:
            self._say_whole(b"400 Bad Request", b'{"error": {"message": "not a request of this bench"}}')
        else:
            self._book.last = request[request.find(b"\r\n\r\n") + 4 :]
            sent: list[int] = []
            self._book.notes.append((mark.token, time.monotonic_ns(), time.time_ns(), sent))
            latency = mark.later if mark.token in self._book.heard else mark.first
            self._book.heard.add(mark.token)
            self._stream(self._book.answers[wire], mark.token, latency / 1000, sent)

    def _stream(self, answer: Answer, token: str, latency: float, sent: list[int]) -> None:
        pieces = (answer.first_piece(token), *answer.pieces[:-1], answer.pieces[-1] + LAST_CHUNK)
        if latency == 0:
            sent.extend([time.monotonic_ns()] * len(pieces))
            self._write(b"".join(pieces))
            return
        begun = self._loop.time()

        def say(number: int) -> None:
            sent.append(time.monotonic_ns())
            self._write(pieces[number])
            if number + 1 < len(pieces):
                self._timer = self._loop.call_at(begun + latency * (number + 2) / len(pieces), say, number + 1)

        self._timer = self._loop.call_at(begun + latency / len(pieces), say, 0)

    def _say_json(self, value: object) -> None:
        self._say_whole(b"200 OK", orjson.dumps(value))

    def _say_whole(self, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self._write(head + body)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


async def serve(port: int, told: Callable[[str], None]) -> None:
    """Serve on 127.0.0.1 until cancelled; ``told`` gets the address."""
    # The protocol is named, because only then does asyncio turn Nagle's delay off.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    book, loop = Book(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(book, loop), sock=listener, backlog=1024)
    told(f"http://127.0.0.1:{listener.getsockname()[1]}")
    async with server:
        await server.serve_forever()


def announce(line: str) -> None:
    """Tell whoever started this process where it is."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="bench.model_server", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    run(serve(parser.parse_args().port, announce))


if __name__ == "__main__":
    main()
