"""A worker on fakes: one desk, its store, its bus, and a box of tools that note what was done."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from services.agent_worker.actions.ask_model import route_of
from services.agent_worker.actions.desk import Desk, Manner
from services.agent_worker.actions.heed_control import heed_control
from services.agent_worker.actions.remember_history import Histories
from services.agent_worker.actions.serve_conversation import Served, serve_conversation
from services.agent_worker.actions.take_work import WorkInHand
from services.agent_worker.actions.tell import Outlet
from services.agent_worker.ports import Proof, ToolUse, Verdict
from services.agent_worker.rules.fair_share import FairShare
from services.agent_worker.rules.prompt import ContextFiles
from shared.actions.accept_message import accept_message
from shared.actions.cancel_run import cancel_run
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.control import InMemoryControl
from shared.adapters.inmemory.model import ScriptedModel
from shared.domain.chat import Message, ToolCall, ToolResult
from shared.domain.effect import EffectClass, ToolSpec
from shared.domain.provider import ModelSpec
from shared.domain.run import Accepted, CancelAnswer, NewRun
from shared.messages.run_events import RunEvent
from shared.ports.model import ModelAnswer, ModelRequest
from tests.builders import CONVERSATION, RATES, new_run
from tests.faults import FaultyRuns, FlakyBulletin
from tests.runs_worlds import InMemoryWorld

SPEC = ModelSpec(name="primary", provider="openai", model="m1", rates=RATES, max_context_tokens=100_000)


class FixedPulse:
    """A beat as old as a test says."""

    def __init__(self) -> None:
        self.age = timedelta(0)


class OneFile:
    """A workspace with a personality and nothing else."""

    async def context_files(self, tier: str) -> ContextFiles:
        return ContextFiles(stable=[("SOUL.md", f"kind ({tier})")], semi_stable=[])


Doing = Callable[[Mapping[str, Any]], Awaitable[str]]


@dataclass(slots=True)
class Tools:
    """A ``Toolbox``. Each tool says ``<name> did <x>``, unless ``doing`` says otherwise; ``done`` are keys in order."""

    classes: Mapping[str, EffectClass]
    doing: dict[str, Doing] = field(default_factory=dict)
    proofs: dict[str, Proof] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    done: list[tuple[str, str]] = field(default_factory=list)

    def specs(self) -> Sequence[ToolSpec]:
        return [ToolSpec(name, f"Does {name}. Really.", {}, effect) for name, effect in self.classes.items()]

    def spec(self, name: str) -> ToolSpec | None:
        return next((spec for spec in self.specs() if spec.name == name), None)

    async def prove(self, call: ToolCall, use: ToolUse) -> Proof | None:
        return self.proofs.get(call["name"])

    async def verify(self, call: ToolCall, proof: Proof) -> Verdict:
        assert proof == self.proofs[call["name"]]
        return self.verdicts.get(call["name"], "unknown")

    async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
        if self.spec(call["name"]) is None or (use.scope is not None and call["name"] not in use.scope):
            return {"tool_use_id": call["id"], "content": "Error: Unknown tool", "is_error": True}
        self.done.append((call["name"], use.key))
        doing = self.doing.get(call["name"])
        text = await doing(call["arguments"]) if doing else f"{call['name']} did {call['arguments'].get('x')}"
        result: ToolResult = {"tool_use_id": call["id"], "content": text}
        if text.startswith("Error"):
            result["is_error"] = True
        return result


class Room:
    """Everything on one worker's desk. ``heir`` opens a second room over the same store and bus."""

    def __init__(
        self,
        *script: ModelAnswer | BaseException | asyncio.Event,
        tools: Tools | None = None,
        manner: Manner | None = None,
        spec: ModelSpec = SPEC,
        pieces: int = 1,
        world: InMemoryWorld | None = None,
        bus: InMemoryBus | None = None,
        control: InMemoryControl | None = None,
        alone: bool = False,
    ) -> None:
        self.control = control or InMemoryControl()
        self.alone = alone
        self.world = world or InMemoryWorld()
        self.clock = self.world.clock
        self.bus = bus or InMemoryBus(self.clock)
        self.runs = FaultyRuns(self.world.runs)
        self.bulletin = FlakyBulletin(self.bus)
        self.model = ScriptedModel(script, spec=spec, pieces=pieces)
        self.tools = tools or Tools({"read": "read", "exec": "once"})
        self.pulse = FixedPulse()
        self.histories = Histories(1_000_000)
        self.worker = UUID(int=0)
        self._manner = manner or Manner(retry_base=2.0)
        self.desk: Desk

    async def open(self) -> "Room":
        self.worker = await self.world.hire()
        self.desk = Desk(
            worker=self.worker,
            runs=self.runs,
            models={"primary": self.model},
            routes={"*": route_of(self.model)},
            toolbox=self.tools,
            workspace=OneFile(),
            outlet=Outlet(self.bulletin, self.runs, self.clock),
            acts=self.world.acts,
            children=self.world.children,
            blobs=self.world.blobs,
            clock=self.clock,
            pulse=self.pulse,
            manner=self._manner,
            draining=asyncio.Event(),
            chance=random.Random(1),  # noqa: S311 - spreads retries
            alone=self.alone,
        )
        return self

    async def heir(self, *script: ModelAnswer | BaseException | asyncio.Event) -> "Room":
        """A second worker, after the first was found dead."""
        await self.world.fence(self.worker)
        return await self.peer(*script)

    async def peer(self, *script: ModelAnswer | BaseException | asyncio.Event, alone: bool = False) -> "Room":
        """Another worker beside this one."""
        room = Room(
            *script,
            tools=self.tools,
            manner=self._manner,
            world=self.world,
            bus=self.bus,
            control=self.control,
            alone=alone,
        )
        return await room.open()

    @contextlib.asynccontextmanager
    async def at_work(
        self, *, slots: int = 2, isolate: Callable[[str], None] = lambda _: None
    ) -> AsyncIterator[WorkInHand]:
        """The hand of this worker, which heeds what is told over the control stream."""
        hand = WorkInHand(self.desk, self.histories, share=FairShare(slots), isolate=isolate)
        heeding = asyncio.create_task(heed_control(self.control, hand))
        await asyncio.sleep(0)
        try:
            yield hand
        finally:
            heeding.cancel()
            await hand.drop()

    async def cancel(self, run: UUID) -> CancelAnswer:
        """What a gateway does."""
        return await cancel_run(run, inbox=self.world.inbox, control=self.control, wake_ups=self.bus)

    async def send(self, new: NewRun) -> Accepted:
        """The same with a message."""
        return await accept_message(new, inbox=self.world.inbox, wake_ups=self.bus, control=self.control)

    async def accept(self, text: str = "hello", **fields: Any) -> UUID:
        return (await self.world.accept(new_run(text, **fields))).run

    async def serve(self, conversation: str = CONVERSATION, *, entry: str = "") -> Served:
        served = await serve_conversation(conversation, self.desk, self.histories, entry=entry)
        await self.desk.outlet.flush()
        return served

    async def answer(self, text: str = "hello", **fields: Any) -> Mapping[str, Any]:
        """Accept a message, serve its conversation, and tell the outcome."""
        run = await self.accept(text, **fields)
        await self.serve()
        return await self.outcome(run)

    async def outcome(self, run: UUID) -> Mapping[str, Any]:
        (finished,) = await self.world.inbox.outcomes([run])
        return finished.outcome

    async def events(self, run: UUID) -> Sequence[RunEvent]:
        return await self.bus.read(run, after="0-0")

    def history(self) -> list[Message]:
        """Rows that a model would read, of all sessions."""
        return [row.body for row in self.world.tables.messages if not row.dropped]

    def roles(self) -> list[str]:
        return [message["role"] for message in self.history()]

    def all_calls_have_results(self) -> bool:
        """Every answer with calls is followed by results for exactly these, and no results stand alone."""
        rows = self.history()
        for before, row in zip([None, *rows], [*rows, None], strict=True):
            asked = (
                [one["id"] for one in before.get("tool_calls", [])] if before and before["role"] == "assistant" else []
            )
            given = [one["tool_use_id"] for one in row["results"]] if row and row["role"] == "tool_results" else []
            if asked != given:
                return False
        return True

    async def every_call_is_booked(self) -> bool:
        """Each request to the model has one reservation and one settlement, and nothing is left open."""
        asked = {request.call_id for request in self.model.requests}
        booked = {row.call_id for row in await self.world.booked()}
        reserved = set(self.world.tables.reservations)
        return asked <= booked and asked <= reserved and not await self.world.open_reservations()


def with_manner(**fields: Any) -> Manner:
    """The usual manner, with some of it changed."""
    return replace(Manner(retry_base=2.0), **fields)


async def until(condition: Callable[[], object], within: float = 5.0) -> None:
    """Wait until this is so."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.001)


def asks(*names: str, text: str = "") -> ModelAnswer:
    """An answer that wants these tools; the calls are ``c0``, ``c1`` ... with their index as ``x``."""
    calls: list[ToolCall] = [
        {"id": f"c{index}", "name": name, "arguments": {"x": index}} for index, name in enumerate(names)
    ]
    return ModelAnswer(text, tool_calls=calls, stop_reason="tool_use")


def asked_texts(request: ModelRequest) -> list[str]:
    """What people said in a request to the model, without the stamps of time."""
    texts = [str(message["content"]) for message in request.messages if message["role"] == "user"]
    return [text.split("\n", 1)[-1] for text in texts]


def contents(room: Room) -> list[str]:
    """What tools have answered, in order."""
    return [
        result["content"]
        for message in room.history()
        if message["role"] == "tool_results"
        for result in message["results"]
    ]
