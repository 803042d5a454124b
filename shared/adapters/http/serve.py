"""Serves an ASGI application inside a running event loop, and leaves without cutting anybody off."""

import asyncio
import contextlib
import select
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from shared.adapters.http.patience import Patience, PatientProtocol

_LOOK_EVERY = 0.02
_DATE_EVERY = 1.0


class _Protocol(PatientProtocol):
    """A connection that knows how to say goodbye: its next answer announces the end, and only then does it close."""

    _leaving = False

    def leave(self, *, idle_too: bool) -> None:
        """Answer what comes with ``Connection: close``; with ``idle_too`` close it when there is nothing to answer."""
        self._leaving = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif idle_too and self._is_idle() and not self.transport.is_closing():
            self.transport.close()

    def on_headers_complete(self) -> None:
        """A request has begun; it runs only when this has returned."""
        super().on_headers_complete()
        if self._leaving and self.cycle is not None:
            self.cycle.keep_alive = False

    def _is_idle(self) -> bool:
        """Nothing of a request was read, and none waits in the kernel to be read."""
        between = self.timeout_keep_alive_task is not None
        fresh = self.cycle is None and self.scope is None
        if not (between or fresh):
            return False
        poll = select.poll()
        try:
            poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        except (AttributeError, OSError, ValueError):
            return True
        return not poll.poll(0)


class _Server(uvicorn.Server):
    """The process has one owner of its signals, and it is not the web server."""

    def __init__(self, config: uvicorn.Config, *, idle_grace: float, patience: Patience) -> None:
        super().__init__(config)
        self._idle_grace = idle_grace
        self._patience = patience
        self._asked = asyncio.Event()
        self._refusing = False
        self._leaving_since: float | None = None

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]  # uvicorn's own signature
        yield

    def ask_to_end(self) -> None:
        """Leave the main loop."""
        self.should_exit = True
        self._asked.set()

    async def main_loop(self) -> None:
        """Once a second, renew the date of the answers and cut off who is slow.

        uvicorn's own looks ten times a second whether it shall end.
        """
        while not await self.on_tick(0):
            self._cut_off_the_slow()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_EVERY):
                    await self._asked.wait()

    def _cut_off_the_slow(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            if isinstance(connection, PatientProtocol):
                connection.cut_off_if_slow(now, self._patience)

    def take_no_more(self) -> None:
        """Accept nothing from now on; who holds the socket besides us goes on with those who wait in its queue."""
        if not self._refusing:
            self._refusing = True
            for server in self.servers:
                server.close()

    async def empty(self, *, within: float) -> bool:
        """Let each connection end with its next answer, idle ones after a grace; false when some are left then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        self._leaving_since = self._leaving_since or loop.time()
        while self.server_state.connections and loop.time() < until:
            self._leave(idle_too=loop.time() - self._leaving_since >= self._idle_grace)
            await asyncio.sleep(_LOOK_EVERY)
        return not self.server_state.connections

    def _leave(self, *, idle_too: bool) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, _Protocol):
                connection.leave(idle_too=idle_too)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What is left when ``within`` is over is cut off."""
        self.take_no_more()
        for sock in sockets or []:
            sock.close()
        if not await self.empty(within=float(self.config.timeout_graceful_shutdown or 0)):
            self._leave(idle_too=True)
        for task in list(self.server_state.tasks):
            task.cancel()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=1)
        for connection in list(self.server_state.connections):
            if not connection.transport.is_closing():
                connection.transport.abort()


class Door:
    """The server from outside."""

    def __init__(self, server: _Server) -> None:
        self._server = server

    def take_no_more(self) -> None:
        """Accept no more connections. Those that are open go on, and every answer from now on is their last."""
        self._server.take_no_more()

    async def empty(self, within: timedelta) -> bool:
        """Wait until every connection has had its last answer; true when none is left.

        Idle connections are closed after a grace: a request that is on its way meanwhile is answered.
        """
        return await self._server.empty(within=within.total_seconds())


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    listener: socket.socket,
    *,
    grace_seconds: int = 5,
    idle_grace: timedelta = timedelta(0),
    patience: Patience | None = None,
) -> AsyncIterator[Door]:
    """Serve until the block ends; then take no more, and give open requests ``grace_seconds``.

    ``idle_grace`` is how long connections stay on which nothing is asked. Who wants to leave slowly does so with the
    door, before the block ends. Clients that are slower than ``patience`` are cut off.
    """
    manner: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "date_header": True}
    server = _Server(
        uvicorn.Config(
            app,
            **manner,
            http=_Protocol,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=grace_seconds,
            lifespan="off",
            ws="none",
            interface="asgi3",
            proxy_headers=False,  # nothing here asks who the client is
        ),
        idle_grace=idle_grace.total_seconds(),
        patience=patience or Patience(),
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event to wait for
            await asyncio.sleep(0.005)
        yield Door(server)
    finally:
        server.ask_to_end()
        await task
        listener.close()
