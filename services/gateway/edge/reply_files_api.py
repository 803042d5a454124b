"""Files that came with replies, byte for byte."""

from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import scope_of
from services.gateway.edge.operation import RUN_PARTS, Operation, Reply
from services.gateway.rules.reply_shapes import Problem
from shared.errors import BadInput, LucydError, NotFound
from shared.ports.history import History
from shared.ports.reply_files import ReplyFile, ReplyFiles

BYTES = "application/octet-stream"
LONGEST_NUMBER = 9
NUMBER = {"type": "integer", "minimum": 1}
NO_SUCH_FILE = "the reply of this run has no such file"
GONE = "this file is no longer kept"


@dataclass(frozen=True, slots=True)
class ReplyFilesApi:
    """``/api/v1/runs/{id}/attachments/{number}``."""

    history: History
    files: ReplyFiles
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What it does."""
        return [
            Operation(
                "GET", "/api/v1/runs/{id}/attachments/{number}", self.file, "chat", "a file that came with a reply",
                {
                    200: Reply("its bytes, under its own media type", media=BYTES, also=("*/*",)),
                    404: Reply("no such run or file, or its bytes are no longer kept", Problem),
                },
                parts={**RUN_PARTS, "number": NUMBER}, or_needs="read",
            )
        ]  # fmt: skip

    async def file(self, request: Request) -> Response:
        """Give the bytes to whoever may know of the run."""
        try:
            run = await self._run(request)
            number = _number(request.path_params["number"])
            file = await self.files.file(run, number) if number is not None else None
            if file is None or not file.is_kept:
                raise NotFound(GONE if file else NO_SUCH_FILE)
        except LucydError as fault:
            return self.bodies.error(fault)
        return StreamingResponse(self.files.pieces(file), headers=_headers(file))

    async def _run(self, request: Request) -> UUID:
        try:
            run = await self.history.run(UUID(request.path_params["id"]))
        except ValueError as fault:
            raise BadInput("a run is named by its id") from fault
        if run is None or not scope_of(request.scope).covers(run.principal):
            raise NotFound("no such run")
        return run.id


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < LONGEST_NUMBER else None


def _headers(file: ReplyFile) -> dict[str, str]:
    """To be stored and not shown: what an agent sends may be a page with a program in it."""
    name = quote(file.filename, safe="")
    return {
        "Content-Type": file.content_type,
        "Content-Length": str(file.size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
