"""``python -m tests.e2e.blockable_worker``: an agent worker with a tool that sleeps in the wrong way.

Each command waits for the file ``block`` in the workspace, which holds seconds, and then holds up the event loop for so
long. Meanwhile the file is called ``blocked``, and then it is gone.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.ports import Proof, ToolUse, Verdict
from services.agent_worker.wiring import open_service
from shared.domain.chat import ToolCall, ToolResult
from shared.domain.effect import ToolSpec
from shared.runtime.service import Service, run
from shared.runtime.settings import Configuration


class BlockingToolbox:
    """A toolbox whose calls begin with a blocked event loop."""

    def __init__(self, toolbox: LocalToolbox, asked: Path) -> None:
        self._toolbox = toolbox
        self._asked = asked

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolbox.specs()

    def spec(self, name: str) -> ToolSpec | None:
        return self._toolbox.spec(name)

    async def prove(self, call: ToolCall, use: ToolUse) -> Proof | None:
        return await self._toolbox.prove(call, use)

    async def verify(self, call: ToolCall, proof: Proof) -> Verdict:
        return await self._toolbox.verify(call, proof)

    async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
        while not self._asked.exists():
            await asyncio.sleep(0.05)
        blocked = self._asked.rename(self._asked.with_name("blocked"))
        time.sleep(float(blocked.read_text("utf-8")))  # this is the point
        blocked.unlink()
        return await self._toolbox.use(call, use)


def _blocking(port: Any, /, *, asked: Path) -> Any:
    return BlockingToolbox(port, asked) if isinstance(port, LocalToolbox) else port


@contextlib.asynccontextmanager
async def open_blockable(configuration: Configuration) -> AsyncIterator[Service]:
    """The worker as it is, but for its toolbox."""
    async with open_service(configuration, wrap=partial(_blocking, asked=configuration.workspace / "block")) as service:
        yield service


if __name__ == "__main__":
    run("agent_worker", open_blockable)
