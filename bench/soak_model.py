"""The model of a soak: ``python -m bench.soak_model`` prints its address and serves OpenAI's wire, streamed.

A message says after its mark what shall happen, ``[[bench <token> <first> <later>]] [[soak <mood>]]``: a tool is asked
for, the provider refuses or breaks off, or nothing special. Each mood comes once for a token; then the plain answer
follows. What a request holds is counted and told as usage, so that histories grow and are compacted.
"""

import argparse
import asyncio
import re
import time
from typing import Any

import orjson

from bench.http_line import content_length
from bench.loops import run
from bench.model_server import announce
from bench.wire import LAST_CHUNK, PIECE_ENDS, Mark, find_mark, reply_text

TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "exec": ("exec", {"command": "echo soak"}),
    "read": ("read", {"file_path": "soak.txt"}),
    "write": ("write", {"file_path": "soak.txt", "content": "A line that is written again and again.\n"}),
}
REFUSALS = {"429": b"429 Too Many Requests", "500": b"500 Internal Server Error"}
MOODS = ("plain", *TOOLS, *REFUSALS, "cut")

BYTES_PER_TOKEN = 4
_MOOD = re.compile(rb"\]\] \[\[soak ([a-z0-9]+)\]\]")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_NO_MARK = Mark("0" * 12, 0, 0)
_REMEMBERED = 10_000


def mood_text(mood: str) -> str:
    """What a message holds after its mark to have it so. Raises ``ValueError`` for an unknown mood."""
    if mood not in MOODS:
        raise ValueError(f"not a mood of the soak's model: {mood}")
    return f"[[soak {mood}]]"


def find_mood(body: bytes) -> str:
    """The mood of the last message, which is the one with the last mark."""
    begin = body.rfind(b"[[bench ")
    end = body.find(b"]]", begin)
    found = _MOOD.match(body, end) if begin >= 0 <= end else None
    return found[1].decode() if found else "plain"


class SoakModel:
    """Answers requests; remembers which tokens had their mood, the newest ten thousand."""

    def __init__(self) -> None:
        self._had: dict[str, None] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; requests on it follow each other."""
        try:
            while head := await _read_head(reader):
                body = await reader.readexactly(content_length(head))
                await self._answer(body, writer)
                if writer.is_closing():
                    return
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _answer(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        mark, mood = find_mark(body) or _NO_MARK, find_mood(body)
        if mood == "plain" or mark.token in self._had:
            await self._say(writer, mark, len(body))
            return
        self._had[mark.token] = None
        if len(self._had) > _REMEMBERED:
            del self._had[next(iter(self._had))]
        if mood in REFUSALS:
            said = b'{"error": {"message": "not now"}}'
            refusal = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            writer.write(refusal % (REFUSALS[mood], len(said), said))
        elif mood == "cut":
            writer.write(_HEAD + _chunk({"role": "assistant", "content": "This sentence has no"}))
            await writer.drain()
            writer.close()
            return
        else:
            name, arguments = TOOLS[mood]
            function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
            call = {"index": 0, "id": f"call_{mark.token}", "type": "function", "function": function}
            asked = _chunk({"role": "assistant", "content": None, "tool_calls": [call]})
            writer.write(_HEAD + asked + _end("tool_calls", len(body), 30))
        await writer.drain()

    async def _say(self, writer: asyncio.StreamWriter, mark: Mark, size: int) -> None:
        text, begin = reply_text(mark.token), 0
        writer.write(_HEAD)
        for end in PIECE_ENDS:
            await asyncio.sleep(mark.first / 1000 / len(PIECE_ENDS))
            writer.write(_chunk({"content": text[begin:end]}))
            begin = end
        writer.write(_end("stop", size, len(text) // BYTES_PER_TOKEN))
        await writer.drain()


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _chunk(delta: dict[str, Any], *, finish: str | None = None, usage: dict[str, int] | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if usage is None else []
    told = {"id": "chatcmpl-soak", "object": "chat.completion.chunk", "created": int(time.time()), "model": "bench"}
    data = b"data: %b\n\n" % orjson.dumps({**told, "choices": choices, "usage": usage})
    return b"%x\r\n%b\r\n" % (len(data), data)


def _end(finish: str, size: int, said: int) -> bytes:
    asked = size // BYTES_PER_TOKEN
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    done = b"data: [DONE]\n\n"
    return _chunk({}, finish=finish) + _chunk({}, usage=usage) + b"%x\r\n%b\r\n" % (len(done), done) + LAST_CHUNK


async def serve(port: int) -> None:
    """Serve on 127.0.0.1 until cancelled."""
    server = await asyncio.start_server(SoakModel().serve, "127.0.0.1", port, backlog=1024)
    announce(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="bench.soak_model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
