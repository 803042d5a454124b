"""``/openapi.json`` and ``/docs``: what this API is, for programs and for people."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.api_page import page_of, policy_of
from services.gateway.edge.openapi import document
from services.gateway.edge.operation import Operation, Reply

TAG = "the house"
OPENAPI, DOCS = "/openapi.json", "/docs"
UNCHANGED = {"ETag": "What to send as `If-None-Match` the next time."}
ASKED_BEFORE: Mapping[str, Mapping[str, Any]] = {
    "If-None-Match": {"type": "string", "description": "The `ETag` of what is known already."}
}
ABOUT = (
    "Messages in, replies out, and all that is known of runs, sessions and costs. An error is one sentence in `error`; "
    "the routes under `/v1` speak OpenAI's form. Other methods than those named here are answered with 405 and `Allow`."
)


@dataclass(frozen=True, slots=True)
class Page:
    """Something that is sent as it is until the process ends."""

    content: bytes
    headers: Mapping[str, str]

    @classmethod
    def of(cls, content: bytes, media: str, more: Mapping[str, str] | None = None) -> "Page":
        """With what a browser or a proxy needs to keep it and to ask whether it changed."""
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        kept = {"Content-Type": media, "ETag": tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
        return cls(content, {**kept, **(more or {})})

    def answer(self, request: Request) -> Response:
        """It, or 304 for whoever has it."""
        known = request.headers.get("if-none-match", "")
        tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
        if known.strip() == "*" or self.headers["ETag"] in tags:
            kept = {name: value for name, value in self.headers.items() if name != "Content-Type"}
            return Response(status_code=304, headers=kept)
        return Response(self.content, headers=dict(self.headers))


@dataclass(frozen=True, slots=True)
class DocumentApi:
    """Both are made at the first request, of the operations that ``known`` names then, and kept."""

    known: Callable[[], Sequence[Operation]]
    version: str
    _made: dict[str, Page] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    def operations(self) -> list[Operation]:
        """What they do."""
        same = Reply("it is what `If-None-Match` names", headers=UNCHANGED)
        return [
            Operation(
                "GET", OPENAPI, self.openapi, None, "this API as an OpenAPI document",
                {200: Reply("the document", dict[str, Any], headers=UNCHANGED), 304: same},
                headers=ASKED_BEFORE, tag=TAG,
            ),
            Operation(
                "GET", DOCS, self.docs, None, "the same as a page to read",
                {200: Reply("the page", media="text/html", headers=UNCHANGED), 304: same},
                headers=ASKED_BEFORE, tag=TAG,
            ),
        ]  # fmt: skip

    async def openapi(self, request: Request) -> Response:
        """OpenAPI 3.1, made of the types that requests are checked with."""
        return (await self._page(OPENAPI)).answer(request)

    async def docs(self, request: Request) -> Response:
        """Every route with its parameters, bodies and an example; it loads nothing and runs no script."""
        return (await self._page(DOCS)).answer(request)

    async def _page(self, name: str) -> Page:
        async with self._making:
            if name not in self._made:
                self._made.update(await asyncio.to_thread(self._make))  # it takes a tenth of a second
        return self._made[name]

    def _make(self) -> dict[str, Page]:
        told = document(self.known(), version=self.version, description=ABOUT)
        html = page_of(told)
        shown = {"Content-Security-Policy": policy_of(html), "Referrer-Policy": "no-referrer"}
        return {
            OPENAPI: Page.of(orjson.dumps(told), "application/json"),
            DOCS: Page.of(html.encode(), "text/html; charset=utf-8", shown),
        }
