"""Ports that note at which boundary each run is before they go on, and hold it there when they are told to.

What they do not know they hand through, so that they keep fitting ports that grow.
"""

import asyncio
import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from services.agent_worker.ports import ToolUse
from shared.domain.chat import ToolCall, ToolResult
from shared.domain.run import Write
from shared.ports.bus import Batch
from shared.ports.model import ModelAnswer, ModelRequest, OnDelta
from tests.chaos.gates import TAKE, Gates

LISTENS_FOR = timedelta(milliseconds=200)


class Steps:
    """The file of one process. A line is with the kernel before its step begins, so a SIGKILL loses none."""

    def __init__(self, folder: Path) -> None:
        self.run_of_call: dict[UUID, tuple[str, str]] = {}
        self.run_in: dict[str, str] = {}
        self._file = os.open(folder / f"{os.getpid()}.notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, mark: str, conversation: str, run: object = "", detail: str = "") -> None:
        """Write it down."""
        os.write(self._file, f"{time.monotonic():.6f}\t{mark}\t{conversation}\t{run}\t{detail}\n".encode())


class Through:
    """Hands everything through to ``port``."""

    def __init__(self, port: Any) -> None:
        self._port = port

    @property
    def port(self) -> Any:
        """What is behind it."""
        return self._port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class NotedRuns(Through):
    """Claims, steps and ends."""

    def __init__(self, port: Any, steps: Steps, gates: Gates) -> None:
        super().__init__(port)
        self._steps = steps
        self._gates = gates

    async def claim(self, conversation: str, *, call_id: UUID, **rest: Any) -> Any:
        """See ``Runs.claim``."""
        self._steps.note("claiming", conversation)
        await self._gates.stand("claiming", [conversation])
        try:
            claim = await self._port.claim(conversation, call_id=call_id, **rest)
        except BaseException:
            self._steps.note("unclaimed", conversation)
            raise
        if not hasattr(claim, "run"):  # a refusal
            self._steps.note("unclaimed", conversation)
            return claim
        self._steps.run_of_call[call_id] = conversation, str(claim.run)
        self._steps.run_in[conversation] = str(claim.run)
        self._steps.note("claimed", conversation, claim.run, str(claim.epoch))
        return claim

    async def store(self, conversation: str, *, write: Write, **rest: Any) -> Any:
        """See ``Runs.store``."""
        if write.reserve is not None:
            self._steps.run_of_call[write.reserve.call_id] = conversation, str(write.run)
        boundary = boundary_of(write)
        if boundary:
            self._steps.note(boundary, conversation, write.run)
            await self._gates.stand(boundary, [conversation])
        try:
            more = await self._port.store(conversation, write=write, **rest)
        except BaseException:
            self._steps.note("left", conversation, write.run)
            raise
        if write.ending is not None:
            self._steps.note("telling", conversation, write.run)
        elif boundary:
            self._steps.note("asking" if boundary == "storing results" else "acting", conversation, write.run, "next")
        return more

    async def hand_back(self, conversation: str, **rest: Any) -> Any:
        """See ``Runs.hand_back``."""
        self._steps.note("left", conversation, self._steps.run_in.get(conversation, ""))
        return await self._port.hand_back(conversation, **rest)


def boundary_of(write: Write) -> str:
    """Which commit this is; empty for one that only books or reserves."""
    if write.ending is not None:
        return "finishing"
    if write.results or any(message["role"] == "tool_results" for message in write.messages):
        return "storing results"
    return "storing answer" if write.messages else ""


class NotedModel(Through):
    """Model calls."""

    def __init__(self, port: Any, steps: Steps, gates: Gates) -> None:
        super().__init__(port)
        self._steps = steps
        self._gates = gates

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """See ``Model.answer``."""
        conversation, run = self._steps.run_of_call.get(request.call_id, ("", ""))
        self._steps.note("asking", conversation, run, str(request.call_id))
        try:
            answer: ModelAnswer = await self._port.answer(request, on_delta)
            await self._gates.stand("asking", [conversation])  # all of it was told, and nothing is stored
        except asyncio.CancelledError:
            self._steps.note("left", conversation, run)
            raise
        return answer


class NotedToolbox(Through):
    """Tool calls, and the tools that only a test has."""

    def __init__(self, port: Any, steps: Steps, more: "dict[str, Any]") -> None:
        super().__init__(port)
        self._steps = steps
        self._more = more

    def specs(self) -> Any:
        """See ``Toolbox.specs``."""
        return (*self._port.specs(), *(tool.spec for tool in self._more.values()))

    def spec(self, name: str) -> Any:
        """See ``Toolbox.spec``."""
        return self._more[name].spec if name in self._more else self._port.spec(name)

    async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
        """See ``Toolbox.use``."""
        self._steps.note("acting", use.conversation, use.run_id, f"{use.key} {call['name']}")
        try:
            result = await self._used(call, use)
        except asyncio.CancelledError:
            self._steps.note("left", use.conversation, use.run_id)
            raise
        self._steps.note("acted", use.conversation, use.run_id, f"{use.key} {call['name']}")
        return result

    async def _used(self, call: ToolCall, use: ToolUse) -> ToolResult:
        if call["name"] not in self._more:
            result: ToolResult = await self._port.use(call, use)
        else:
            await use.ready()
            text = await self._more[call["name"]].run(call["arguments"], use)
            result = {"tool_use_id": call["id"], "content": text}
        return result


class NotedBulletin(Through):
    """What is told."""

    def __init__(self, port: Any, steps: Steps, gates: Gates) -> None:
        super().__init__(port)
        self._steps = steps
        self._gates = gates

    async def publish(self, batch: Batch) -> None:
        """See ``Bulletin.publish``."""
        if batch.finished:
            await self._gates.stand("telling", [finished.conversation for finished in batch.finished])
        await self._port.publish(batch)
        for finished in batch.finished:
            self._steps.note("told", finished.conversation, finished.run)


class AlertWakeUps(Through):
    """Wake-ups that leave all new work to the peers while they are told to."""

    def __init__(self, port: Any, gates: Gates) -> None:
        super().__init__(port)
        self._gates = gates

    async def take(self, *, limit: int, wait: timedelta) -> Any:
        """See ``WakeUps.take``; never waits for long, so as to hear soon that it is to leave work to others."""
        await self._gates.stand(TAKE)
        return await self._port.take(limit=limit, wait=min(wait, LISTENS_FOR))

    async def take_left(self, *, mark: str, limit: int) -> Any:
        """See ``WakeUps.take_left``."""
        await self._gates.stand(TAKE)
        return await self._port.take_left(mark=mark, limit=limit)


class JumpingClock(Through):
    """Wall time that jumps; monotonic time does not."""

    def __init__(self, port: Any, gates: Gates) -> None:
        super().__init__(port)
        self._gates = gates

    def now(self) -> datetime:
        """See ``Clock.now``."""
        now: datetime = self._port.now()
        return now + timedelta(seconds=self._gates.clock_is_off)
