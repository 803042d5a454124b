"""Serves an ASGI application inside a running event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import uvicorn
from starlette.types import ASGIApp

from shared.errors import ConfigError

BACKLOG = 1024


class _Server(uvicorn.Server):
    """The process has one owner of its signals, and it is not the web server."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]  # uvicorn's own signature
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ``ConfigError`` when the port is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for only then does the event loop turn off Nagle's delay on what it accepts.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as fault:
        listener.close()
        raise ConfigError([f"Port {port} on {host} can't be used ({fault.strerror}); set LUCYD_HTTP_PORT."]) from fault
    listener.settimeout(0)
    return listener


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket, *, grace_seconds: int = 5) -> AsyncIterator[None]:
    """Serve until the block ends; then take no more, and give open requests ``grace_seconds``."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=grace_seconds,
            lifespan="off",
            ws="none",
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event to wait for
            await asyncio.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        await task
        listener.close()
