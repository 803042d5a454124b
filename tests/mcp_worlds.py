"""Servers of the Model Context Protocol, connected for a test as the worker connects them."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from shared.adapters.mcp.patience import Patience
from shared.adapters.mcp.servers import ConnectedServers
from shared.domain.mcp_server import McpServer
from shared.domain.mcp_tool import OfferedTool
from shared.ports.mcp_servers import Answered

ROOT = Path(__file__).resolve().parent.parent
SOON = 20.0
"""Seconds for what takes less than one where nothing else goes on."""


def sdk_server(name: str = "s", *words: str, **more: Any) -> McpServer:
    """One made with the SDK, as a program."""
    return _program(name, "tests.mcp_server", *words, **more)


def raw_server(manner: str, name: str = "s", **more: Any) -> McpServer:
    """One that behaves as no SDK would."""
    return _program(name, "tests.raw_mcp_server", manner, **more)


def _program(name: str, module: str, *words: str, environment: dict[str, str] | None = None, **more: Any) -> McpServer:
    needed = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return McpServer(
        name,
        command=(sys.executable, "-m", module, *words),
        environment={**needed, **(environment or {})},
        folder=ROOT,
        **{"start_timeout": timedelta(seconds=SOON), "call_timeout": timedelta(seconds=SOON), **more},
    )


class World:
    """Connected servers, spoken of by short words."""

    def __init__(self, servers: ConnectedServers) -> None:
        self.servers = servers

    def names(self) -> list[str]:
        """What is offered."""
        return [tool.spec.name for tool in self.servers.tools()]

    def tool(self, name: str) -> OfferedTool:
        """One of them."""
        return next(tool for tool in self.servers.tools() if tool.spec.name == name)

    async def call(self, name: str, /, **arguments: Any) -> Answered:
        """Use it."""
        return await self.servers.call(self.tool(name), arguments)

    async def said(self, name: str, /, **arguments: Any) -> str:
        """What it answers."""
        return (await self.call(name, **arguments)).text

    def condition(self, name: str = "s") -> str:
        """How a server is doing."""
        return next(state.condition for state in self.servers.states() if state.name == name)

    def reason(self, name: str = "s") -> str:
        """Why it is away."""
        return next(state.reason for state in self.servers.states() if state.name == name)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until that is so."""
        await until(holds, what)


async def until(holds: Callable[[], bool], what: str, *, within: float = SOON) -> None:
    """Wait until that is so."""
    end = asyncio.get_running_loop().time() + within
    while not holds():
        assert asyncio.get_running_loop().time() < end, f"not within {within} s: {what}"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def connected(*servers: McpServer, tried: bool = True, patience: Patience | None = None) -> AsyncIterator[World]:
    """Connected, or not, once each has been tried."""
    opened = ConnectedServers(servers, patience=patience)
    living = asyncio.create_task(opened.live())
    try:
        if tried:
            await opened.tried(timedelta(seconds=SOON * 2))
        yield World(opened)
    finally:
        living.cancel()
        await asyncio.wait({living})
        assert living.cancelled()


def is_running(pid: int) -> bool:
    """Whether there is a process of that number that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
