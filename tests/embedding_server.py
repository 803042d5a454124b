"""A server that speaks OpenAI's ``POST /embeddings``, as far as it is documented, and counts what it is asked."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "embedder-key"


def vector_of(piece: str | list[int], length: int = 3) -> list[float]:
    """The vector of a text: its length, and then halves."""
    return [float(len(piece)), *[0.5] * (length - 1)]


@dataclass(slots=True)
class EmbeddingServer:
    """``answers`` are given before the usual ones: a status and a body each, ``None`` for one that never comes."""

    url: str = ""
    answers: list[tuple[int, Any] | None] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, body: Any, authorization: str) -> tuple[int, Any]:
        """What is answered to a request."""
        if authorization != f"Bearer {KEY}":
            return 401, {"error": {"message": f"wrong key {authorization}", "code": "invalid_api_key"}}
        self.asked.append(body)
        if self.answers:
            given = self.answers.pop(0)
            if given is None:
                self.over.wait(30)
                return 500, {}
            return given
        if set(body) - {"model", "input", "encoding_format", "dimensions"} or body["encoding_format"] != "float":
            return 400, {"error": {"message": "unknown field"}}
        vectors = [vector_of(piece, body.get("dimensions", 3)) for piece in body["input"]]
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        used = sum(map(len, body["input"]))
        usage = {"prompt_tokens": used, "total_tokens": used}
        return 200, {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}

    @contextlib.contextmanager
    def in_thread(self) -> Iterator["EmbeddingServer"]:
        """Serve until the block ends."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """One request a connection."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, told = outer.answer(body, self.headers.get("Authorization", ""))
                content = told.encode() if isinstance(told, str) else json.dumps(told).encode()
                with contextlib.suppress(OSError):  # who was kept waiting is gone
                    self.send_response(status if self.path == "/v1/embeddings" else 404)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
            try:
                yield self
            finally:
                self.over.set()
                server.shutdown()
                thread.join()
