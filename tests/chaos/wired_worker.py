"""``python -m tests.chaos.wired_worker -c lucyd.toml``: the agent worker, with a test's wrappers before its ports."""

import asyncio
import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.wiring import open_service
from shared.adapters.models import anthropic
from shared.adapters.postgres.runs import PostgresRuns
from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.system_clock import SystemClock
from shared.runtime.service import Service, run
from shared.runtime.settings import Configuration
from tests.chaos.blocking_tools import BlockTool, StampTool
from tests.chaos.gates import Gates
from tests.chaos.noted_ports import (
    AlertWakeUps,
    JumpingClock,
    NotedBulletin,
    NotedModel,
    NotedRuns,
    NotedToolbox,
    Steps,
)
from tests.chaos.planted_ports import PLANTED_PORTS, Planter, nothing_planted

SOCKET, FOLDER, PLANT, SPARE = "CHAOS_SOCKET", "CHAOS_FOLDER", "CHAOS_PLANT", "CHAOS_SPARE"


SDK = anthropic.__name__
"""Imported at the start: it costs more than a second, which a spare worker has spent before it is needed."""


class Wrapper:
    """Wraps each port once; ``plant`` is the fault of the product that is tried out, if any."""

    def __init__(self, gates: Gates, folder: Path, plant: Planter) -> None:
        self._gates = gates
        self._folder = folder
        self._plant = plant
        self._steps = Steps(folder)
        self._listening: asyncio.Task[None] | None = None

    def __call__(self, port: Any, /) -> Any:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._gates.listen())
        return self._plant(self._noted(port))

    def _noted(self, port: Any) -> Any:
        match port:
            case PostgresRuns():
                return NotedRuns(port, self._steps, self._gates)
            case RedisBulletin():
                return NotedBulletin(port, self._steps, self._gates)
            case SystemClock():
                return JumpingClock(port, self._gates)
            case LocalToolbox():
                more = {
                    "block": BlockTool(self._gates, self._folder / "acts.log"),
                    "stamp": StampTool(self._folder / "stamps.log"),
                }
                return NotedToolbox(port, self._steps, more)
            case RedisWakeUps():
                return AlertWakeUps(port, self._gates)
            case _ if hasattr(port, "answer"):
                return NotedModel(port, self._steps, self._gates)
        return port


def main() -> None:
    """Run until told to stop. A spare one first waits for the rest of its environment, with everything imported."""
    if os.environ.get(SPARE):
        os.environ.update(json.loads(sys.stdin.readline() or sys.exit(0)))
        del os.environ[SPARE]  # a process that it starts for a suspect has the same command line, and must not wait
    gates, folder = Gates(os.environ[SOCKET]), Path(os.environ[FOLDER])
    plant = PLANTED_PORTS.get(os.environ.get(PLANT, ""), nothing_planted)

    def opened(configuration: Configuration) -> AbstractAsyncContextManager[Service]:
        return open_service(configuration, wrap=Wrapper(gates, folder, plant()))

    run("agent_worker", opened)


if __name__ == "__main__":
    main()
