"""A stream shows everything that was told, in order, and ends once, whatever Redis has lost meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from services.agent_worker.rules.step_record import StepRecord
from services.gateway.actions.follow_run import BEGINNING, follow_run
from services.gateway.actions.watch_runs import LOOK_AGAIN, RunWatch
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.system_clock import SystemClock
from shared.domain.run import Claim, Told
from shared.errors import TryLater
from shared.messages.run_events import ACCEPTED_ID, STEP, EventType, RunEvent, event_id, id_order, terminal_id
from shared.ports.bus import Batch, WakeUp
from shared.ports.history import ToldSoFar, Transcripts
from shared.ports.runs import FinishedRun
from tests.builders import CONVERSATION, final_write, new_run, write
from tests.runs_worlds import InMemoryWorld

WITHIN = 5.0


class ForgetfulBus(InMemoryBus):
    """A Redis that can be away."""

    away = False

    async def read(self, run: UUID, *, after: str, limit: int = 500) -> Sequence[RunEvent]:
        if self.away:
            raise TryLater("Redis can't be reached")
        return await super().read(run, after=after, limit=limit)


@dataclass
class Scene:
    """A run that is worked on, and what a client of a Redis that loses nothing has seen of it."""

    world: InMemoryWorld
    bus: ForgetfulBus
    claim: Claim
    worker: UUID
    step: int = 0
    offset: int = 0
    keep: str = ACCEPTED_ID
    last: str = ACCEPTED_ID
    record: StepRecord = field(default_factory=StepRecord)
    seen: list[RunEvent] = field(default_factory=list)

    @classmethod
    async def begin(cls) -> "Scene":
        world = InMemoryWorld()
        world.me = await world.hire()
        bus = ForgetfulBus(world.clock)
        accepted = await world.accept(new_run())
        await bus.wake([WakeUp(CONVERSATION, accepted.run)])
        scene = cls(world, bus, await world.claim(), world.me)
        scene.seen += await bus.read(accepted.run, after=BEGINNING)
        await scene.tell("attempt", {"keep": scene.keep})
        return scene

    @property
    def run(self) -> UUID:
        return self.claim.run

    async def tell(self, kind: EventType, data: Mapping[str, Any]) -> None:
        self.offset += len(data["text"]) if kind in {"delta", "thinking"} else 1
        event = RunEvent(event_id(self.claim.epoch, self.step, self.offset), kind, data, self.last)
        self.last = event.id
        self.record.add(self.step * STEP + self.offset, kind, data)
        self.seen.append(event)
        await self.bus.publish(Batch(events=[(self.run, event)]))

    async def store(self) -> None:
        self.keep = event_id(self.claim.epoch, self.step, self.offset)
        stored = write(self.claim, step=self.step + 1, told=Told(self.step, self.record.events()), keep=self.keep)
        await self.world.store(self.claim, stored, worker=self.worker)
        self.step, self.offset, self.record = self.step + 1, 0, StepRecord()

    async def die(self) -> None:
        """The worker is gone in the middle of a step, and a peer goes on from the last stored one."""
        await self.world.fleet.fence(self.worker, beat=None, state="stopped")  # a drain: no run is suspected for it
        self.worker = await self.world.hire()
        self.claim = await self.world.claim(worker=self.worker)
        self.offset, self.record, self.last = 0, StepRecord(), self.keep
        await self.tell("attempt", {"keep": self.keep})

    async def lose(self, *, wake: bool) -> None:
        """Redis is emptied; whoever wakes the conversation says again that the message was accepted."""
        self.bus.forget_everything()
        if wake:
            await self.bus.wake([WakeUp(CONVERSATION, self.run)])

    async def end(self, *, told_by_worker: bool = True) -> FinishedRun:
        done = final_write(self.claim, "hello there", told=Told(self.step, self.record.events()))
        await self.world.store(self.claim, done, worker=self.worker)
        (finished,) = await self.world.inbox.outcomes([self.run])
        after = self.last if told_by_worker else None
        told = FinishedRun(finished.run, finished.conversation, finished.terminal, finished.outcome, after)
        self.seen.append(RunEvent(told.terminal, "done", told.outcome))
        await self.bus.publish(Batch(finished=[told]))
        return told

    async def follow(self, after: str = BEGINNING) -> Sequence[RunEvent]:
        return [event async for event in self.stream(after) if event is not None]

    async def stream(self, after: str = BEGINNING) -> AsyncGenerator[RunEvent | None]:
        async with watched(self, self.world.transcripts) as watch:
            async for event in follow_run(
                self.run, after=after, streams=self.bus, watch=watch, transcripts=self.world.transcripts
            ):
                yield event


@contextlib.asynccontextmanager
async def watched(scene: Scene, transcripts: Transcripts) -> AsyncIterator[RunWatch]:
    """The watch that each gateway has."""
    watch = RunWatch(scene.bus, transcripts, SystemClock())
    task = asyncio.create_task(watch.watch())
    try:
        yield watch
    finally:
        task.cancel()


def put_together(events: Sequence[RunEvent]) -> list[tuple[str, str]]:
    """What a client has on its screen: text by kind, everything after a ``keep`` dropped, pieces joined."""
    ids = [id_order(event.id) for event in events]
    assert ids == sorted(set(ids)), "ids must grow, and none may come twice"
    kept: list[RunEvent] = []
    for event in events:
        if "keep" in event.data:
            kept = [one for one in kept if id_order(one.id) <= id_order(event.data["keep"])]
        kept.append(event)
    shown: list[tuple[str, str]] = []
    for event in kept:
        text = event.data.get("text", "")
        if shown and event.type in {"delta", "thinking"} and shown[-1][0] == event.type:
            shown[-1] = (event.type, shown[-1][1] + text)
        else:
            shown.append((event.type, text))
    return shown


deeds = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["delta", "delta", "thinking", "notice"]), st.text("abcdef", min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["store", "store", "die", "lose", "lose and wake"]), st.just("")),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(deeds, st.booleans(), st.sampled_from(["kept", "gone", "emptied"]), st.data())
def test_every_id_can_be_resumed_whatever_redis_has_lost(
    script: list[tuple[str, str]], told_by_worker: bool, stream: str, data: st.DataObject
) -> None:
    """One client is there from the beginning; others come back with any id that was ever told, after the end."""

    async def play() -> None:
        scene = await Scene.begin()
        watching = asyncio.create_task(scene.follow())
        for deed, text in script:
            match deed:
                case "store":
                    await scene.store()
                case "die":
                    await scene.die()
                case "lose" | "lose and wake":
                    await scene.lose(wake=deed != "lose")
                case "delta" | "thinking" | "notice":
                    await scene.tell(deed, {"text": text})
            await asyncio.sleep(0)
        end = await scene.end(told_by_worker=told_by_worker)
        wanted = put_together(scene.seen)
        assert put_together(await asyncio.wait_for(watching, WITHIN)) == wanted
        if stream != "kept":
            scene.bus.forget_everything()
        if stream == "emptied":  # the sweep has told the end again
            again = FinishedRun(end.run, end.conversation, end.terminal, end.outcome)
            await scene.bus.publish(Batch(finished=[again]))
        heard = scene.seen[: data.draw(st.integers(0, len(scene.seen)))]
        after = heard[-1].id if heard else BEGINNING
        if after != end.terminal:
            rest = await asyncio.wait_for(scene.follow(after), WITHIN)
            assert put_together([*heard, *rest]) == wanted
            assert rest[-1].type == "done"

    asyncio.run(play())


async def test_a_gap_in_the_step_in_hand_is_waited_out() -> None:
    """Half of the step is nowhere but in its worker; what follows must not be shown before it."""
    scene = await Scene.begin()
    await scene.tell("delta", {"text": "lost "})
    await scene.lose(wake=True)
    watching = asyncio.create_task(scene.follow(event_id(1, 0, 1)))
    await asyncio.sleep(0.05)
    await scene.tell("delta", {"text": "and found"})
    await asyncio.sleep(0.05)
    await scene.store()
    await scene.tell("delta", {"text": ", and on"})
    await asyncio.sleep(0.05)
    await scene.end()
    events = await asyncio.wait_for(watching, WITHIN)
    assert [event.data.get("text") for event in events] == ["lost and found", ", and on", None]


async def test_a_client_that_waits_for_a_step_is_kept_alive() -> None:
    """Words come and can't be shown; the connection must not look dead."""
    scene = await Scene.begin()
    await scene.tell("delta", {"text": "lost "})
    await scene.lose(wake=False)
    await scene.tell("delta", {"text": "later"})
    stream = scene.stream(event_id(1, 0, 1))
    assert await asyncio.wait_for(anext(stream), WITHIN) is None
    await scene.store()
    while (event := await asyncio.wait_for(anext(stream), WITHIN)) is None:
        pass
    assert event.data["text"] == "lost later"
    await stream.aclose()


async def test_a_new_attempt_ends_the_wait_for_what_its_forerunner_told() -> None:
    """What the dead worker told and did not store is dropped anyway; nobody waits for it."""
    scene = await Scene.begin()
    await scene.store()
    await scene.tell("delta", {"text": "lost "})
    await scene.lose(wake=False)
    await scene.tell("delta", {"text": "with its worker"})
    await scene.die()
    stream = scene.stream(event_id(1, 0, 1))
    event = await asyncio.wait_for(anext(stream), LOOK_AGAIN.total_seconds() / 2)
    assert event is not None
    assert (event.type, event.data["keep"]) == ("attempt", event_id(1, 0, 1))
    await stream.aclose()


async def test_without_redis_steps_are_told_as_they_are_stored() -> None:
    """Slowly, and all of it."""
    scene = await Scene.begin()
    scene.bus.away = True
    stream = scene.stream(ACCEPTED_ID)
    assert await asyncio.wait_for(anext(stream), WITHIN) is None
    await scene.tell("delta", {"text": "one"})
    await scene.store()
    heard: list[str] = []
    while len(heard) < 2:
        if (event := await asyncio.wait_for(anext(stream), WITHIN)) is not None:
            heard.append(event.type)
    await scene.tell("delta", {"text": "two"})
    await scene.end()
    heard += [event.type async for event in stream if event is not None]
    assert heard == ["attempt", "delta", "delta", "done"]


async def test_when_postgres_is_away_an_end_that_may_hide_a_gap_waits_for_it() -> None:
    """The sweep tells ends without knowing what was told before them."""
    scene = await Scene.begin()
    await scene.tell("delta", {"text": "hello there"})
    await scene.lose(wake=True)
    away = AwayOnce(scene.world)
    await scene.end(told_by_worker=False)
    async with watched(scene, away) as watch:
        events = follow_run(scene.run, after=event_id(1, 0, 1), streams=scene.bus, watch=watch, transcripts=away)
        found = [event.type async for event in events if event is not None]
    assert (found, away.asked) == (["delta", "done"], 2)


class AwayOnce:
    """A Postgres that is away for the first question."""

    def __init__(self, world: InMemoryWorld) -> None:
        self._world = world
        self.asked = 0

    async def told(self, run: UUID, *, after: str) -> ToldSoFar:
        self.asked += 1
        if self.asked == 1:
            raise TryLater("Postgres can't be reached")
        return await self._world.transcripts.told(run, after=after)

    async def moved(self, known: Mapping[UUID, str]) -> Mapping[UUID, str]:
        return await self._world.transcripts.moved(known)


async def test_events_of_an_older_worker_claim_no_gap() -> None:
    """It does not say what it told before; what it tells is shown as it comes."""
    scene = await Scene.begin()
    await scene.lose(wake=False)
    old = RunEvent(event_id(1, 0, 9), "delta", {"text": "old"})
    await scene.bus.publish(Batch(events=[(scene.run, old)]))
    stream = scene.stream(event_id(1, 0, 1))
    event = await asyncio.wait_for(anext(stream), LOOK_AGAIN.total_seconds() / 2)
    assert event is not None
    assert event.data["text"] == "old"
    await stream.aclose()


async def test_a_gap_that_no_step_has_stored_is_not_waited_for() -> None:
    """An older worker, or retention: nothing up to ``keep`` will come any more."""
    scene = await Scene.begin()
    await scene.tell("delta", {"text": "lost for good"})
    scene.record = StepRecord()
    await scene.lose(wake=False)
    await scene.store()
    await scene.tell("delta", {"text": "here"})
    stream = scene.stream(event_id(1, 0, 1))
    event = await asyncio.wait_for(anext(stream), LOOK_AGAIN.total_seconds() / 2)
    assert event is not None
    assert event.data["text"] == "here"
    await stream.aclose()


async def test_who_stands_in_the_middle_of_an_entry_gets_its_rest() -> None:
    """Any id is understood, also one that Redis has joined with its neighbours."""
    scene = await Scene.begin()
    await scene.tell("delta", {"text": "abcdef"})
    stream = scene.stream(event_id(1, 0, 4))
    event = await asyncio.wait_for(anext(stream), WITHIN)
    assert event is not None
    assert (event.id, event.data["text"]) == (event_id(1, 0, 7), "def")
    await stream.aclose()


async def ended_scene() -> tuple[Scene, FinishedRun]:
    """A run that has ended in the store, by a worker that stores no steps; its end was not told."""
    scene = await Scene.begin()
    await scene.world.store(scene.claim, final_write(scene.claim, "hello there"))
    (finished,) = await scene.world.inbox.outcomes([scene.run])
    return scene, finished


async def test_the_end_does_not_overtake_the_last_words() -> None:
    """The end is in Postgres a moment before the text is in Redis; whoever looks in between must wait for the text."""
    scene, finished = await ended_scene()
    watching = asyncio.create_task(scene.follow())
    await asyncio.sleep(LOOK_AGAIN.total_seconds() + 0.3)
    delta = RunEvent(event_id(1, 0, 12), "delta", {"text": "hello there"}, event_id(1, 0, 1))
    await scene.bus.publish(Batch(events=[(finished.run, delta)], finished=[finished]))
    events = await asyncio.wait_for(watching, WITHIN)

    assert [event.type for event in events] == ["accepted", "attempt", "delta", "done"]


async def test_a_stream_that_is_gone_ends_at_once_from_postgres() -> None:
    """Yesterday's run: Redis has forgotten it, Postgres has not."""
    scene, _ = await ended_scene()
    scene.bus.forget_everything()
    events = await asyncio.wait_for(scene.follow(ACCEPTED_ID), LOOK_AGAIN.total_seconds() * 0.9)
    assert [(event.type, event.data["reply"]) for event in events] == [("done", "hello there")]


async def test_an_end_that_is_never_told_comes_from_postgres_in_the_end() -> None:
    """The worker died between the commit and Redis, and the sweep has not been there yet."""
    scene, _ = await ended_scene()
    events = await asyncio.wait_for(scene.follow(ACCEPTED_ID), 6)
    assert [event.type for event in events] == ["attempt", "done"]
    assert events[-1].id == terminal_id(1)


async def test_whoever_has_seen_the_end_is_not_kept_waiting() -> None:
    """A client that reconnects with the last id gets an empty, closed stream."""
    scene, finished = await ended_scene()
    assert await asyncio.wait_for(scene.follow(finished.terminal), 2) == []
    scene.bus.forget_everything()
    assert await asyncio.wait_for(scene.follow(finished.terminal), 0.5) == []
