"""``python -m tests.integration.busy_worker``: an agent worker on one processor, which is full."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from services.agent_worker.wiring import open_service
from shared.runtime.processors import Processors
from shared.runtime.service import Service, run
from shared.runtime.settings import Configuration


class OneFullProcessor(Processors):
    """Whatever the machine is like."""

    @property
    def count(self) -> int:
        return 1

    def busy(self) -> float | None:
        return 1.0


def _busy(port: Any, /) -> Any:
    return OneFullProcessor() if isinstance(port, Processors) else port


@contextlib.asynccontextmanager
async def open_busy(configuration: Configuration) -> AsyncIterator[Service]:
    """The worker as it is, but for its processors."""
    async with open_service(configuration, wrap=_busy) as service:
        yield service


if __name__ == "__main__":
    run("agent_worker", open_busy)
