"""Tools that only a test has: one that blocks its process, and one that leaves a stamp under its key."""

import asyncio
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.agent_worker.ports import ToolUse
from shared.domain.effect import ToolSpec
from tests.chaos.gates import Gates

_CATASTROPHIC = re.compile(r"(a+)+$")


class BlockTool:
    """Blocks as it is told: ``sleep`` holds the event loop, ``gil`` holds every thread of the process."""

    spec = ToolSpec(
        "block", "Block.", {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}, "once"
    )

    def __init__(self, gates: Gates, acts: Path) -> None:
        self._gates = gates
        self._acts = acts

    async def run(self, arguments: Mapping[str, Any], _: ToolUse) -> str:
        """Block once."""
        key = str(arguments["key"])
        with self._acts.open("a") as acts:
            acts.write(f"{key} begin {time.monotonic():.3f}\n")
        how, seconds = await self._gates.order(key)
        began = time.monotonic()
        if how == "sleep":
            time.sleep(seconds)  # on purpose: this is what a careless plugin does
        elif how == "gil":
            hold_gil(seconds)
        self._gates.say(f"blocked {began} {time.monotonic()} {how}")
        with self._acts.open("a") as acts:
            acts.write(f"{key} end {time.monotonic():.3f}\n")
        return "blocked"


class _Enough(Exception):
    pass


def hold_gil(seconds: float) -> None:
    """Match an expression that never ends, until the alarm rings; no other thread of this process runs meanwhile."""

    def enough(*_: object) -> None:
        raise _Enough

    before = signal.signal(signal.SIGALRM, enough)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        _CATASTROPHIC.match("a" * 64 + "b")
    except _Enough:
        pass
    finally:
        signal.signal(signal.SIGALRM, before)


class StampTool:
    """Takes some seconds, and leaves the key of its call in a file."""

    spec = ToolSpec(
        "stamp",
        "Leave a stamp.",
        {
            "type": "object",
            "properties": {"key": {"type": "string"}, "seconds": {"type": "number"}},
            "required": ["key", "seconds"],
        },
        "idempotent",
    )

    def __init__(self, stamps: Path) -> None:
        self._stamps = stamps

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Leave it and wait."""
        with self._stamps.open("a") as stamps:
            stamps.write(f"{arguments['key']} {use.key}\n")
        await asyncio.sleep(float(arguments["seconds"]))
        return "stamped"
