"""What clients are told: in order, once, and later if Redis is away."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.actions.tell import (
    ENDS_A_FLUSH,
    ENDS_KEPT,
    EVENTS_KEPT,
    FLUSH_EVERY,
    VIEWS_AFTER,
    Outlet,
    Teller,
)
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.clock import ManualClock
from shared.domain.run import Told as StepTold
from shared.ids import new_id
from shared.messages.run_events import ACCEPTED_ID, STEP, RunEvent, id_order, terminal_id
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun
from tests.builders import CONVERSATION
from tests.faults import FlakyBulletin
from tests.runs_worlds import InMemoryWorld

RUN = new_id()


class Told:
    """An outlet, and what came out of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bus = InMemoryBus(self.clock)
        self.bulletin = FlakyBulletin(self.bus)
        self.outlet = Outlet(self.bulletin, InMemoryWorld().runs, self.clock)

    def teller(self, *, epoch: int = 1, step: int = 0, keep: str = ACCEPTED_ID) -> Teller:
        return Teller(self.outlet, run=RUN, conversation=CONVERSATION, epoch=epoch, step=step, keep=keep)

    async def events(self) -> Sequence[RunEvent]:
        return await self.bus.read(RUN, after="0-0", limit=10_000)


async def test_neighbouring_pieces_of_text_become_one() -> None:
    """A hundred words a second are told twenty times a second."""
    told = Told()
    teller = told.teller()
    for piece in ("Hel", "lo ", "you"):
        teller.piece("text", piece)
    teller.piece("thinking", "hm")
    teller.piece("text", "!")
    await told.outlet.flush()

    assert [(event.type, event.data) for event in await told.events()] == [
        ("delta", {"text": "Hello you"}),
        ("thinking", {"text": "hm"}),
        ("delta", {"text": "!"}),
    ]
    assert [event.id for event in await told.events()] == ["1-9", "1-11", "1-12"]


async def test_pieces_of_two_runs_do_not_mix() -> None:
    """One outlet speaks for all runs of a worker."""
    told = Told()
    other = new_id()
    theirs = Teller(told.outlet, run=other, conversation="cli", epoch=1, step=0, keep=ACCEPTED_ID)
    told.teller().piece("text", "a")
    theirs.piece("text", "x")
    told.teller().piece("text", "b")
    await told.outlet.flush()

    assert "".join(event.data["text"] for event in await told.bus.read(other, after="0-0")) == "x"


pieces = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["text", "thinking"]),
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=9),
        ),
        st.tuples(st.just("event"), st.just("")),
        st.tuples(st.just("step"), st.just("")),
        st.tuples(st.sampled_from(["flush", "away", "back"]), st.just("")),
    ),
    max_size=40,
)


@given(pieces)
def test_ids_only_grow_and_no_character_is_lost(script: list[tuple[str, str]]) -> None:
    """However it is cut into flushes, and whenever Redis is away: Redis refuses what does not grow."""

    async def play() -> None:
        told = Told()
        teller, step = told.teller(), 0
        for kind, text in script:
            match kind:
                case "text" | "thinking":
                    teller.piece("text" if kind == "text" else "thinking", text)
                case "event":
                    teller.event("notice", {"text": "n"})
                case "step":
                    step += 1
                    teller.step_stored(step)
                case "flush":
                    await told.outlet.flush()
                case _:
                    told.bulletin.away = kind == "away"
        told.bulletin.away = False
        assert await told.outlet.flush()
        published = [event for batch in told.bulletin.batches for _, event in batch.events]
        orders = [id_order(event.id) for event in published]
        assert orders == sorted(set(orders))
        assert list(await told.events()) == published
        assert [event.after for event in published] == [ACCEPTED_ID, *(event.id for event in published)][:-1]
        for wanted in ("text", "thinking"):
            kind = "delta" if wanted == "text" else "thinking"
            heard = "".join(event.data["text"] for event in published if event.type == kind)
            assert heard == "".join(text for name, text in script if name == wanted)

    asyncio.run(play())


def test_an_id_says_how_far_a_step_is_told() -> None:
    """Clients of a later attempt keep everything up to the last stored step."""
    told = Told()
    teller = told.teller(epoch=3, step=2)
    teller.event("tool_started", {})
    teller.piece("text", "four")
    assert teller.keep() == f"3-{2 * STEP + 5}"
    teller.step_stored(3)
    assert teller.keep() == f"3-{3 * STEP}"
    assert id_order(terminal_id(3)) > id_order(teller.keep())


async def test_an_attempt_begins_where_the_steps_before_it_ended() -> None:
    """A client that has come that far has missed nothing, whatever the last owner told besides."""
    told = Told()
    teller = told.teller(epoch=5, step=2, keep=f"3-{STEP + 7}")
    assert teller.last == f"3-{STEP + 7}"
    teller.event("attempt", {})
    assert teller.last == f"5-{2 * STEP + 1}"
    await told.outlet.flush()
    assert [event.after for event in await told.events()] == [f"3-{STEP + 7}"]


async def test_pieces_of_two_steps_stay_apart() -> None:
    """A client drops what came after a stored step; it can't drop half an event."""
    told = Told()
    teller = told.teller()
    teller.piece("text", "one")
    teller.step_stored(1)
    teller.piece("text", "two")
    await told.outlet.flush()
    assert [(event.id, event.after) for event in await told.events()] == [
        ("1-3", ACCEPTED_ID),
        (f"1-{STEP + 3}", "1-3"),
    ]


def test_what_a_step_has_told_can_be_stored_with_it() -> None:
    """So that it can be had again when Redis has lost it."""
    teller = Told().teller(step=2)
    assert teller.told() is None
    teller.piece("text", "Hel")
    teller.piece("text", "lo")
    teller.event("notice", {"text": "n"})
    teller.piece("text", "you")
    assert teller.told() == StepTold(
        2,
        (
            (2 * STEP + 5, "delta", {"text": "Hello"}),
            (2 * STEP + 6, "notice", {"text": "n"}),
            (2 * STEP + 9, "delta", {"text": "you"}),
        ),
    )
    teller.step_stored(3)
    assert teller.told() is None


async def test_what_redis_does_not_take_is_told_later_and_in_order() -> None:
    """A person sees a pause, not a hole."""
    told = Told()
    teller = told.teller()
    told.bulletin.away = True
    teller.piece("text", "one ")
    teller.event("notice", {"text": "n"})
    told.outlet.acknowledge("5-0")
    told.outlet.monitor(CONVERSATION, {"state": "thinking", "turn": 1})
    told.outlet.owner(CONVERSATION, "w 1")
    assert await told.outlet.flush() is False
    teller.piece("text", "two")
    told.outlet.monitor(CONVERSATION, {"state": "tools"})
    told.outlet.owner(CONVERSATION, "")
    told.outlet.finish(FinishedRun(RUN, CONVERSATION, terminal_id(1), {"state": "done"}))
    assert await told.outlet.flush() is False
    told.bulletin.away = False
    assert await told.outlet.flush() is True

    assert [event.type for event in await told.events()] == ["delta", "notice", "delta", "done"]
    assert dict(told.bus.monitor[CONVERSATION]) | {"updated_at": ""} == {
        "state": "tools",
        "turn": "1",
        "updated_at": "",
    }
    assert told.bus.owners == {}
    assert [entry for batch in told.bulletin.batches for entry in batch.acknowledge] == ["5-0"]


async def test_the_end_of_a_run_comes_after_everything_else_of_it() -> None:
    """Redis would refuse what came after the end, however much there was to tell."""
    told = Told()
    teller = told.teller()
    for _ in range(5_000):
        teller.event("notice", {"text": "n"})
    told.outlet.finish(FinishedRun(RUN, CONVERSATION, terminal_id(1), {"state": "done"}))
    await told.outlet.flush()

    assert len(told.bulletin.batches) == 3
    events = await told.events()
    assert len(events) == 5_001
    assert events[-1].type == "done"


async def test_deltas_wait_for_each_other_and_an_end_does_not_wait() -> None:
    """50 ms gather what all runs say; who waits for a reply has it at once."""
    told = Told()
    flushing = asyncio.create_task(told.outlet.flush_for_ever())
    loop = asyncio.get_running_loop()
    started = loop.time()
    teller = told.teller()
    for piece in "abc":
        teller.piece("text", piece)
        await asyncio.sleep(0.005)
    assert told.bulletin.batches == []
    while not told.bulletin.batches:
        await asyncio.sleep(0.001)
    assert loop.time() - started >= FLUSH_EVERY.total_seconds() * 0.9
    assert [len(batch.events) for batch in told.bulletin.batches] == [1]

    told.outlet.finish(FinishedRun(RUN, CONVERSATION, terminal_id(1), {"state": "done"}))
    before = loop.time()
    while len(told.bulletin.batches) < 2:
        await asyncio.sleep(0)
    assert loop.time() - before < FLUSH_EVERY.total_seconds() * 0.8
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)


async def test_what_was_on_its_way_when_the_flusher_stopped_is_told_by_the_last_flush() -> None:
    """A drain cancels the flusher and then flushes once more."""
    told = Told()

    class Slow(FlakyBulletin):
        async def publish(self, batch: Batch) -> None:
            await asyncio.sleep(10)

    outlet = Outlet(Slow(told.bulletin), InMemoryWorld().runs, told.clock)
    outlet.add(RUN, RunEvent("1-1", "notice", {}))
    with_slow = asyncio.create_task(outlet.flush())
    await asyncio.sleep(0.01)
    with_slow.cancel()
    await asyncio.gather(with_slow, return_exceptions=True)
    outlet._bulletin = told.bulletin
    assert await outlet.flush()

    assert [event.id for event in await told.events()] == ["1-1"]


async def test_what_can_not_be_told_is_dropped_and_the_rest_goes_on() -> None:
    """One odd value must not end the process that holds everybody else's conversations."""
    told = Told()

    class Choking(FlakyBulletin):
        async def publish(self, batch: Batch) -> None:
            if any("poison" in event.data for _, event in batch.events):
                raise TypeError("not JSON")
            await super().publish(batch)

    outlet = Outlet(Choking(told.bus), InMemoryWorld().runs, told.clock)
    outlet.add(RUN, RunEvent("1-1", "notice", {"poison": True}))
    assert await outlet.flush()
    outlet.add(RUN, RunEvent("1-2", "notice", {"text": "fine"}))
    assert await outlet.flush()

    assert [event.id for event in await told.events()] == ["1-2"]


async def test_after_a_long_outage_ends_are_told_in_portions_and_the_surplus_is_left_to_the_sweep() -> None:
    """Tens of thousands in one pipeline would never pass, and would hold up everything behind them."""
    told = Told()
    told.bulletin.away = True
    for _ in range(ENDS_KEPT + 10):
        told.outlet.finish(FinishedRun(new_id(), CONVERSATION, terminal_id(1), {"state": "done"}))
    assert not await told.outlet.flush()
    told.bulletin.away = False
    assert await told.outlet.flush()

    portions = [len(batch.finished) for batch in told.bulletin.batches]
    assert max(portions) <= ENDS_A_FLUSH
    assert sum(portions) == ENDS_KEPT


async def test_views_of_a_conversation_are_told_together_soon_after_and_the_last_one_stands() -> None:
    """Operators see what stays; what came and went within a quarter of a second costs nothing."""
    told = Told()
    flushing = asyncio.create_task(told.outlet.flush_for_ever())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    started = loop.time()
    told.outlet.owner(CONVERSATION, "w 1")
    told.outlet.monitor(CONVERSATION, {"state": "thinking", "turn": 1})
    told.outlet.acknowledge("5-0")
    while not told.bulletin.batches:
        await asyncio.sleep(0.001)
    told.outlet.monitor(CONVERSATION, {"state": "idle"})
    told.outlet.owner(CONVERSATION, "")
    while len(told.bulletin.batches) < 2:
        await asyncio.sleep(0.001)
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)

    assert loop.time() - started >= VIEWS_AFTER.total_seconds() * 0.9
    first, second = told.bulletin.batches
    assert (first.acknowledge, first.monitor, first.owners) == (["5-0"], {}, {})
    assert {name: fields["state"] for name, fields in second.monitor.items()} == {CONVERSATION: "idle"}
    assert second.owners == {CONVERSATION: ""}


async def test_ends_that_follow_each_other_share_a_pipeline_and_the_first_does_not_wait() -> None:
    """Under load a pipeline for each end would cost more than what it says."""
    told = Told()
    flushing = asyncio.create_task(told.outlet.flush_for_ever())
    await asyncio.sleep(0)
    for _ in range(3):
        told.outlet.finish(FinishedRun(new_id(), CONVERSATION, terminal_id(1), {"state": "done"}))
        for _ in range(5):
            await asyncio.sleep(0)
    while sum(len(batch.finished) for batch in told.bulletin.batches) < 3:
        await asyncio.sleep(0.001)
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)

    assert [len(batch.finished) for batch in told.bulletin.batches] == [1, 2]


async def test_text_that_was_dropped_does_not_take_what_follows_with_it() -> None:
    """After an outage that was too long a client meets a gap, and then hears the rest."""
    told = Told()
    told.bulletin.away = True
    teller = told.teller()
    teller.piece("text", "lost")
    other = Teller(told.outlet, run=new_id(), conversation="cli", epoch=1, step=0, keep=ACCEPTED_ID)
    for _ in range(EVENTS_KEPT):
        other.event("notice", {})
    teller.piece("text", "kept")
    told.bulletin.away = False
    await told.outlet.flush()

    assert [(event.id, event.after, event.data) for event in await told.events()] == [("1-8", "1-4", {"text": "kept"})]
