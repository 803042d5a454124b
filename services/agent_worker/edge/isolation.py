"""A process of its own for a run that three processes died with: it may take nobody along."""

import asyncio
import contextlib
import os
import sys
from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta

import structlog

log = structlog.get_logger(__name__)


class Isolation:
    """Starts such processes, one after the other, with this process's own command line.

    ``variable`` names this process and the conversation to them. ``longest``: one that lives for longer is ended.
    """

    def __init__(self, environment: Mapping[str, str], *, variable: str, longest: timedelta) -> None:
        self._environment = environment
        self._variable = variable
        self._longest = longest
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._under_way: str | None = None
        self._something = asyncio.Event()

    def ask(self, conversation: str) -> None:
        """Have this conversation worked on; asked twice, also while it is, once."""
        if conversation != self._under_way:
            self._asked[conversation] = None
            self._something.set()

    async def run(self) -> None:
        """Start what was asked for, until cancelled; a process that is there then is told to end."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._asked:
                self._under_way, _ = self._asked.popitem(last=False)
                await self._work_on(self._under_way)
                self._under_way = None

    async def _work_on(self, conversation: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *sys.orig_argv[1:],
            stdin=asyncio.subprocess.DEVNULL,
            env={**self._environment, self._variable: f"{os.getpid()} {conversation}"},
        )
        log.warning("suspect_isolated", conversation=conversation, pid=process.pid)
        try:
            async with asyncio.timeout(self._longest.total_seconds()):
                code = await process.wait()
        except TimeoutError:
            code = await _end(process)
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()  # it hands back by itself
            raise
        log.info("isolation_over", conversation=conversation, pid=process.pid, code=code)


async def _end(process: asyncio.subprocess.Process) -> int:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    return await process.wait()
