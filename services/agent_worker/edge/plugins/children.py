"""Processes for the tools that compute: one call at a time in each, and whatever happens there happens to them."""

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

import lucyd_plugin
from lucyd_plugin import PluginError
from services.agent_worker.edge.plugins.away import Broke, TookTooLong
from services.agent_worker.edge.plugins.offered import Offer
from services.agent_worker.edge.plugins.reading import Plugin

log = structlog.get_logger(__name__)

MODULE = "services.agent_worker.edge.plugins.child"
PROJECT = Path(lucyd_plugin.__file__).resolve().parent.parent
LONGEST_LINE = 16_000_000
"""Bytes of a result on its way here; the child has cut it before."""

GONE_WITHIN = 5.0
"""Seconds that a killed process may take to be gone."""

FAULTS = {
    error.code: error
    for error in vars(lucyd_plugin).values()
    if isinstance(error, type) and issubclass(error, PluginError)
}


class ChildDied(Exception):
    """It ended without a result: it crashed, or was killed."""


class _Child:
    def __init__(self, plugin: str, process: asyncio.subprocess.Process) -> None:
        self.plugin = plugin
        self.process = process

    async def say(self, value: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None  # noqa: S101 - it was opened with one
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        await self.process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        """Its next answer. Raises ``ChildDied``."""
        assert self.process.stdout is not None  # noqa: S101 - it was opened with one
        try:
            line = await self.process.stdout.readline()
            answer = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, ConnectionError) as error:
            raise ChildDied from error
        if not isinstance(answer, dict):
            raise ChildDied
        return answer

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def gone(self) -> None:
        """Wait until it has ended and its pipes are closed, which is a moment later."""
        with contextlib.suppress(TimeoutError, ConnectionError, ValueError):
            async with asyncio.timeout(GONE_WITHIN):
                await self.process.wait()
                if self.process.stdout is not None:
                    while await self.process.stdout.read(LONGEST_LINE):
                        pass
                if self.process.stdin is not None:
                    await self.process.stdin.wait_closed()


class Children:
    """At most ``most`` processes; one that is idle is kept for the next call of its plugin.

    ``environment`` gives the variables that a plugin's process may see.
    """

    def __init__(self, offer: Offer, environment: Callable[[Plugin], Mapping[str, str]], *, most: int) -> None:
        self._offer = offer
        self._environment = environment
        self._most = most
        self._turn = asyncio.Semaphore(most)
        self._idle: deque[_Child] = deque()
        self._alive: set[_Child] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def call(self, plugin: Plugin, tool: str, arguments: Mapping[str, Any], *, within: float, limit: int) -> str:
        """The result as text. A call that is given up or cancelled ends with its process.

        Raises ``TookTooLong``, ``ChildDied``, ``PluginError`` and ``Broke``.
        """
        try:
            async with asyncio.timeout(within), self._turn:
                child = await self._child(plugin)
                try:
                    await child.say({"tool": tool, "arguments": dict(arguments), "limit": limit})
                    answer = await child.hear()
                except BaseException:
                    self._end(child)
                    raise
                self._idle.append(child)
        except TimeoutError as error:
            raise TookTooLong from error
        except (ConnectionError, OSError) as error:
            raise ChildDied from error
        return _result(answer)

    async def close(self) -> None:
        """End all of them, and wait until they are gone."""
        for child in list(self._alive):
            self._end(child)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _child(self, plugin: Plugin) -> _Child:
        for child in [child for child in self._idle if child.process.returncode is not None]:
            self._idle.remove(child)
            self._end(child)
        for child in self._idle:
            if child.plugin == plugin.name:
                self._idle.remove(child)
                return child
        while len(self._alive) >= self._most and self._idle:
            self._end(self._idle.popleft())
        return await self._started(plugin)

    async def _started(self, plugin: Plugin) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=PROJECT,
            env=dict(self._environment(plugin)),
            limit=LONGEST_LINE,
        )
        child = _Child(plugin.name, process)
        self._alive.add(child)
        try:
            await child.say(
                {"path": str(plugin.path), "sections": dict(self._offer.sections), "tools": list(self._offer.tools)}
            )
        except BaseException:
            self._end(child)
            raise
        return child

    def _end(self, child: _Child) -> None:
        child.kill()
        self._alive.discard(child)
        ending = asyncio.create_task(child.gone())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _result(answer: Mapping[str, Any]) -> str:
    if isinstance(answer.get("text"), str):
        return str(answer["text"])
    if fault := FAULTS.get(str(answer.get("code"))):
        raise fault(str(answer.get("message", "")))
    raise Broke(str(answer.get("broke", "")))
