"""What a failed connection is called in a sentence that a person can do something with."""

from collections.abc import Callable, Sequence
from typing import Any

import httpx2
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from shared.adapters.http.guarded_network import reason_in
from shared.domain.mcp_server import McpServer


def reason_of(fault: BaseException, server: McpServer) -> str:
    """Half a sentence: why the server is away."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    if refused := reason_in(fault):
        return f"its url is not asked: {refused}"
    for kind, say in _SAID:
        if isinstance(fault, kind):
            return say(fault, server)
    return str(fault) or type(fault).__name__


def _program(what: str, server: McpServer) -> str:
    return f"the program {server.command[0]!r} {what}" if server.command else what


_Say = Callable[[Any, McpServer], str]

_SAID: Sequence[tuple[type[BaseException], _Say]] = (
    (TimeoutError, lambda _, server: f"it did not answer within {server.start_timeout.total_seconds():g} s"),
    (NotADirectoryError, lambda _, server: f"there is no folder {server.folder} to start it in"),
    (FileNotFoundError, lambda _, server: _not_found(server)),
    (PermissionError, lambda _, server: _program("may not be started", server)),
    (httpx2.ConnectError, lambda *_: "nobody answers at its url"),
    (httpx2.TimeoutException, lambda *_: "nobody answers at its url in time"),
    (httpx2.HTTPError, lambda fault, _: f"the connection broke: {type(fault).__name__}"),
    (OSError, lambda fault, server: _program(f"can't be started: {fault.strerror}", server)),
    (ValidationError, lambda *_: "it answers with what is no MCP message"),
    (MCPError, lambda fault, _: _ended(fault.error.message)),
)


def _ended(message: str) -> str:
    return "the connection ended" if message == "Connection closed" else message


def _not_found(server: McpServer) -> str:
    if server.folder is not None and not server.folder.is_dir():
        return f"there is no folder {server.folder} to start it in"
    return _program("was not found", server)
