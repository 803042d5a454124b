"""``python -m tests.e2e.poisonable_worker``: an agent worker that dies of a message.

A request to the model that has ``POISON`` in its last message ends this process with SIGKILL, as a fault in a library
or the memory killer of the kernel would.
"""

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

from services.agent_worker.wiring import open_service
from shared.domain.provider import ModelSpec
from shared.ports.model import Model, ModelAnswer, ModelRequest, OnDelta
from shared.runtime.service import Service, run
from shared.runtime.settings import Configuration

POISON = "[[poison]]"


class Poisonable:
    """A model that takes its caller along."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def spec(self) -> ModelSpec:
        return self._model.spec

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        if POISON in str(request.messages[-1]):
            os.kill(os.getpid(), signal.SIGKILL)
        return await self._model.answer(request, on_delta)


def _poisonable(port: Any, /) -> Any:
    return Poisonable(port) if hasattr(port, "answer") and hasattr(port, "spec") else port


@contextlib.asynccontextmanager
async def open_poisonable(configuration: Configuration) -> AsyncIterator[Service]:
    """The worker as it is, but for its models."""
    async with open_service(configuration, wrap=_poisonable) as service:
        yield service


if __name__ == "__main__":
    run("agent_worker", open_poisonable)
