"""What every bus promises, asked of the fake and of Redis."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from shared.ids import new_id
from shared.messages import routes
from shared.messages.run_events import ACCEPTED_ID, RunEvent, event_id, terminal_id
from shared.ports.bus import Batch, WakeUp
from shared.ports.runs import FinishedRun
from tests.bus_worlds import BusWorld, InMemoryBusWorld, RedisBusWorld

SOON = timedelta(milliseconds=300)
NOW = timedelta(milliseconds=1)
AT_ONCE = timedelta(0)


@pytest.fixture(params=["inmemory", "redis"])
def place(request: pytest.FixtureRequest) -> Redis | None:
    return request.getfixturevalue("redis_client") if request.param == "redis" else None


@pytest.fixture
async def bus(place: Redis | None) -> AsyncIterator[BusWorld]:
    """A bus whose group of workers is there."""
    if place is None:
        yield InMemoryBusWorld()
        return
    async with RedisBusWorld(place).listening() as world:
        await world.wake_ups.take(limit=1, wait=NOW)
        yield world


def notice(epoch: int, step: int, offset: int, text: str = "n") -> RunEvent:
    return RunEvent(event_id(epoch, step, offset), "notice", {"text": text})


def ended(epoch: int = 1, reply: str = "hi") -> FinishedRun:
    return FinishedRun(new_id(), "cli", terminal_id(epoch), {"state": "done", "reply": reply})


async def _names(taken: Sequence[WakeUp]) -> list[str]:
    return [wake_up.conversation for wake_up in taken]


async def test_a_wake_up_arrives_as_it_was_sent(bus: BusWorld) -> None:
    """With the run and the trace it belongs to, and whose it is."""
    run = new_id()
    await bus.wake_ups.wake([WakeUp("cli", run, "00-ab-cd-01", principal="key:k"), WakeUp("http:k:a")])
    first, second = await bus.wake_ups.take(limit=10, wait=SOON)

    assert (first.conversation, first.run, first.traceparent) == ("cli", run, "00-ab-cd-01")
    assert (second.conversation, second.run, second.traceparent) == ("http:k:a", None, None)
    assert (first.principal, second.principal) == ("key:k", "")
    assert first.entry
    assert first.entry != second.entry


async def test_each_wake_up_is_read_by_one_worker(bus: BusWorld) -> None:
    """Work is shared out."""
    await bus.wake_ups.wake([WakeUp(name) for name in "abcd"])
    mine = await bus.wake_ups.take(limit=3, wait=SOON)
    theirs = await bus.peer.take(limit=3, wait=SOON)

    assert await _names(mine) == ["a", "b", "c"]
    assert await _names(theirs) == ["d"]


async def test_taking_from_an_empty_road_ends_in_time(bus: BusWorld) -> None:
    """Every wait is bounded."""
    started = time.monotonic()
    assert list(await bus.wake_ups.take(limit=1, wait=timedelta(milliseconds=100))) == []
    assert time.monotonic() - started < 2


async def test_who_does_not_wait_gets_what_is_there(bus: BusWorld) -> None:
    """A worker whose slots are all taken reads on beside its work, and must not hold a peer's place for a second."""
    started = time.monotonic()
    assert list(await bus.wake_ups.take(limit=5, wait=AT_ONCE)) == []
    await bus.wake_ups.wake([WakeUp("a"), WakeUp("b")])

    assert await _names(await bus.wake_ups.take(limit=5, wait=AT_ONCE)) == ["a", "b"]
    assert time.monotonic() - started < 0.9


async def test_who_takes_only_what_is_left_leaves_what_has_just_come(bus: BusWorld) -> None:
    """A surplus worker gives its peers the time between two of its looks."""
    assert await bus.wake_ups.take_left(mark="", limit=1) == ([], "")
    await bus.wake_ups.wake([WakeUp("a"), WakeUp("b")])
    taken, mark = await bus.wake_ups.take_left(mark="", limit=1)
    assert list(taken) == []
    await bus.wake_ups.wake([WakeUp("c")])
    taken, later = await bus.wake_ups.take_left(mark=mark, limit=1)
    assert await _names(taken) == ["a"]
    taken, _ = await bus.wake_ups.take_left(mark=later, limit=5)
    assert await _names(taken) == ["b", "c"]


async def test_what_a_peer_has_taken_is_not_left(bus: BusWorld) -> None:
    """Acknowledged or in hand, it is that peer's; what came after it is looked at next time."""
    await bus.wake_ups.wake([WakeUp("a"), WakeUp("b")])
    _, mark = await bus.wake_ups.take_left(mark="", limit=1)
    (first, _) = await bus.peer.take(limit=2, wait=AT_ONCE)
    await bus.bulletin.publish(Batch(acknowledge=[first.entry]))
    await bus.wake_ups.wake([WakeUp("c")])
    taken, later = await bus.wake_ups.take_left(mark=mark, limit=1)
    assert list(taken) == []
    (third,) = await bus.peer.take(limit=2, wait=AT_ONCE)
    await bus.bulletin.publish(Batch(acknowledge=[first.entry, third.entry]))

    assert list((await bus.wake_ups.take_left(mark=later, limit=1))[0]) == []


async def test_looking_for_what_is_left_survives_a_wipe(bus: BusWorld) -> None:
    """The road is gone with everything that was marked; what comes then is found again."""
    await bus.wake_ups.wake([WakeUp("a")])
    _, mark = await bus.wake_ups.take_left(mark="", limit=1)
    await bus.forget_everything()
    assert await bus.wake_ups.take_left(mark=mark, limit=1) == ([], "")
    await bus.peer.take(limit=1, wait=NOW)  # makes the group anew
    await bus.wake_ups.wake([WakeUp("b")])
    soon, mark = await bus.wake_ups.take_left(mark=mark, limit=1)
    later, _ = await bus.wake_ups.take_left(mark=mark, limit=1)

    assert await _names([*soon, *later]) == ["b"]


async def test_a_waiting_worker_is_woken(bus: BusWorld) -> None:
    """The hop over the stream costs milliseconds, not a poll."""
    taking = asyncio.create_task(bus.peer.take(limit=1, wait=timedelta(seconds=2)))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    await bus.wake_ups.wake([WakeUp("a")])

    assert await _names(await taking) == ["a"]
    assert time.monotonic() - started < 1


async def test_what_is_acknowledged_is_gone(bus: BusWorld) -> None:
    """The stream holds only what nobody has dealt with."""
    await bus.wake_ups.wake([WakeUp("a"), WakeUp("b")])
    first, _ = await bus.wake_ups.take(limit=2, wait=SOON)
    await bus.bulletin.publish(Batch(acknowledge=[first.entry]))

    assert await bus.waiting() == ["b"]
    assert await _names(await bus.peer.reclaim(idle=AT_ONCE, limit=10)) == ["b"]
    await bus.bulletin.publish(Batch(acknowledge=[first.entry]))  # again, which changes nothing


async def test_a_wake_up_whose_reader_died_is_found(bus: BusWorld) -> None:
    """It is dropped then, since Postgres has the work; else it would stay for ever."""
    await bus.wake_ups.wake([WakeUp("a"), WakeUp("b")])
    await bus.wake_ups.take(limit=1, wait=SOON)
    assert list(await bus.peer.reclaim(idle=timedelta(minutes=1), limit=10)) == []
    await bus.wait(0.05)

    assert await _names(await bus.peer.reclaim(idle=timedelta(milliseconds=20), limit=10)) == ["a"]
    assert await _names(await bus.peer.take(limit=10, wait=SOON)) == ["b"]


async def test_work_goes_on_after_redis_was_emptied(bus: BusWorld) -> None:
    """The group is made again at the beginning of the stream, so nothing added meanwhile is missed."""
    await bus.wake_ups.wake([WakeUp("lost")])
    await bus.forget_everything()
    await bus.wake_ups.wake([WakeUp("a")])
    assert list(await bus.peer.reclaim(idle=AT_ONCE, limit=10)) == []
    taken: list[WakeUp] = []
    for _ in range(3):
        taken.extend(await bus.wake_ups.take(limit=5, wait=NOW))

    assert await _names(taken) == ["a"]


async def test_a_wake_up_with_a_run_tells_that_it_was_accepted(bus: BusWorld) -> None:
    """Whoever follows the run sees something at once; told late, it is refused."""
    run, late = new_id(), new_id()
    await bus.bulletin.publish(Batch(events=[(late, notice(1, 0, 1))]))
    await bus.wake_ups.wake([WakeUp("cli", run), WakeUp("cli", late)])
    (event,) = await bus.streams.read(run, after="0-0")

    assert (event.id, event.type) == (ACCEPTED_ID, "accepted")
    assert event.data == {"run_id": str(run), "conversation": "cli"}
    assert [event.type for event in await bus.streams.read(late, after="0-0")] == ["notice"]


async def test_events_are_read_in_order_from_any_id_on(bus: BusWorld) -> None:
    """That is what makes a stream resumable."""
    run = new_id()
    told = [notice(1, 0, offset, str(offset)) for offset in (1, 2, 9, 10, 100)]
    await bus.bulletin.publish(Batch(events=[(run, event) for event in told]))

    assert list(await bus.streams.read(run, after="0-0")) == told
    assert list(await bus.streams.read(run, after=told[1].id)) == told[2:]
    assert list(await bus.streams.read(run, after="0-0", limit=2)) == told[:2]
    assert list(await bus.streams.read(run, after=terminal_id(1))) == []
    assert list(await bus.streams.read(new_id(), after="0-0")) == []


async def test_telling_again_changes_nothing(bus: BusWorld) -> None:
    """An answer from Redis may get lost; the batch is sent again as it was."""
    run, finished = new_id(), ended()
    batch = Batch(
        events=[(run, notice(1, 0, 1)), (finished.run, notice(1, 0, 1))],
        finished=[finished],
        monitor={"cli": {"state": "idle"}},
        owners={"cli": "w 1"},
    )
    await bus.bulletin.publish(batch)
    await bus.bulletin.publish(batch)

    assert len(await bus.streams.read(run, after="0-0")) == 1
    assert [event.type for event in await bus.streams.read(finished.run, after="0-0")] == ["notice", "done"]
    assert await bus.streams.results([finished.run]) == {finished.run: finished.outcome}
    assert await bus.owner("cli") == "w 1"


async def test_a_stale_attempt_is_not_heard(bus: BusWorld) -> None:
    """Its epoch is smaller than what was told already; the store of ids refuses it, not good manners."""
    run = new_id()
    await bus.bulletin.publish(Batch(events=[(run, notice(1, 0, 5, "first")), (run, notice(2, 0, 1, "heir"))]))
    await bus.bulletin.publish(Batch(events=[(run, notice(1, 0, 9, "stale")), (run, notice(2, 0, 2, "heir goes on"))]))

    assert [event.data["text"] for event in await bus.streams.read(run, after="0-0")] == [
        "first",
        "heir",
        "heir goes on",
    ]


async def test_nothing_comes_after_the_end(bus: BusWorld) -> None:
    """A client that has seen the end has closed its stream."""
    finished = ended(epoch=2)
    await bus.bulletin.publish(Batch(finished=[finished]))
    await bus.bulletin.publish(Batch(events=[(finished.run, notice(2, 9, 9))], finished=[finished]))

    (event,) = await bus.streams.read(finished.run, after="0-0")
    assert (event.type, event.id, event.data["reply"]) == ("done", terminal_id(2), "hi")
    assert event.terminal


async def test_an_event_says_what_was_told_before_it(bus: BusWorld) -> None:
    """Who has not come that far has met a gap; who wakes a conversation anew can't hide it."""
    run = new_id()
    first = replace(notice(1, 0, 1), after=ACCEPTED_ID)
    await bus.bulletin.publish(Batch(events=[(run, first)]))
    await bus.forget_everything()
    await bus.wake_ups.wake([WakeUp("cli", run)])
    end = FinishedRun(run, "cli", terminal_id(1), {"state": "done"}, event_id(1, 0, 2))
    await bus.bulletin.publish(Batch(events=[(run, replace(notice(1, 0, 2), after=first.id))], finished=[end]))

    told = await bus.streams.read(run, after="0-0")
    assert [(event.type, event.after) for event in told] == [
        ("accepted", None),
        ("notice", first.id),
        ("done", event_id(1, 0, 2)),
    ]


async def test_text_that_json_can_not_hold_is_told_all_the_same(bus: BusWorld) -> None:
    """One odd character from a model must not silence a worker for everybody."""
    run = new_id()
    finished = FinishedRun(new_id(), "cli", terminal_id(1), {"state": "done", "reply": "half \ud83d", "n": 10**30})
    await bus.bulletin.publish(Batch(events=[(run, notice(1, 0, 1, "half \ud83d and \0"))], finished=[finished]))

    (event,) = await bus.streams.read(run, after="0-0")
    assert event.data["text"] == "half \ufffd and \ufffd"
    assert (await bus.streams.results([finished.run]))[finished.run]["reply"] == "half \ufffd"


async def test_futures_are_there_or_not(bus: BusWorld) -> None:
    """Whoever waits asks for all of its runs at once."""
    one, two = ended(reply="one"), ended(reply="zwei ü")
    assert await bus.streams.results([]) == {}
    await bus.bulletin.publish(Batch(finished=[one, two]))

    found = await bus.streams.results([two.run, new_id(), one.run])
    assert {run: outcome["reply"] for run, outcome in found.items()} == {one.run: "one", two.run: "zwei ü"}


async def test_a_batch_may_wake_peers(bus: BusWorld) -> None:
    """Handed-back conversations travel with everything else."""
    await bus.bulletin.publish(Batch(wake=[WakeUp("a")]))
    assert await _names(await bus.peer.take(limit=1, wait=SOON)) == ["a"]


async def test_operators_see_who_does_what(bus: BusWorld) -> None:
    """Fields of a conversation are added to; an owner who left is gone."""
    await bus.bulletin.publish(Batch(monitor={"cli": {"state": "thinking", "turn": "1"}}, owners={"cli": "w 1"}))
    await bus.bulletin.publish(Batch(monitor={"cli": {"state": "tools"}}, owners={"cli": ""}))

    assert await bus.monitor("cli") == {"state": "tools", "turn": "1"}
    assert await bus.owner("cli") is None


async def test_ends_are_announced_once_to_the_process(bus: BusWorld) -> None:
    """One subscription serves all who wait."""
    finished = [ended(), ended()]
    heard = bus.announcements.finished()
    await bus.bulletin.publish(Batch(finished=finished))

    async with asyncio.timeout(5):
        assert {await anext(heard), await anext(heard)} == {one.run for one in finished}


async def test_a_follower_is_nudged_when_there_is_something_to_read(bus: BusWorld) -> None:
    """And only by its own run."""
    run, other = new_id(), new_id()
    with bus.announcements.follow(run) as nudge:
        await asyncio.wait_for(nudge.wait(), 5)  # once at the start: what was told before is to be read
        nudge.clear()
        await bus.bulletin.publish(Batch(events=[(other, notice(1, 0, 1))]))
        await asyncio.sleep(0.05)
        assert not nudge.is_set()
        await bus.bulletin.publish(Batch(events=[(run, notice(1, 0, 1))]))
        await asyncio.wait_for(nudge.wait(), 5)
        nudge.clear()
        await bus.bulletin.publish(Batch(finished=[FinishedRun(run, "cli", terminal_id(1), {"state": "done"})]))
        await asyncio.wait_for(nudge.wait(), 5)


async def test_two_followers_of_one_run_are_both_nudged(bus: BusWorld) -> None:
    """Two windows on the same run; the one that closes takes nothing from the other."""
    run = new_id()
    with bus.announcements.follow(run) as stays:
        with bus.announcements.follow(run) as leaves:
            await asyncio.wait_for(stays.wait(), 5)
            stays.clear()
            await bus.bulletin.publish(Batch(events=[(run, notice(1, 0, 1))]))
            await asyncio.wait_for(asyncio.gather(stays.wait(), leaves.wait()), 5)
        await asyncio.sleep(0.05)
        stays.clear()
        await bus.bulletin.publish(Batch(events=[(run, notice(1, 0, 2))]))
        await asyncio.wait_for(stays.wait(), 5)


async def test_an_emptied_redis_is_known_by_its_missing_generation(bus: BusWorld) -> None:
    """What it held is told again then, from Postgres."""
    assert await bus.bulletin.is_emptied()
    await bus.bulletin.mark_filled()
    assert not await bus.bulletin.is_emptied()
    await bus.forget_everything()
    assert await bus.bulletin.is_emptied()


def test_keys_are_those_that_people_rely_on() -> None:
    """Operators and clients read them; they do not change."""
    run = new_id()
    assert routes.INBOUND == "lucyd:inbound"
    assert routes.run_events(run) == f"lucyd:run:{run}:events"
    assert routes.run_result(run) == f"lucyd:run:{run}:result"
    assert routes.owner("cli") == "lucyd:owner:cli"
    assert routes.monitor_session("cli") == "lucyd:monitor:session:cli"
    assert routes.monitor_process("agent_worker", run) == f"lucyd:monitor:worker:{run}"
    assert routes.monitor_process("gateway", run) == f"lucyd:monitor:service:gateway:{run}"


async def test_a_bridge_hears_that_something_is_to_be_sent(bus: BusWorld) -> None:
    """Once for what was said so far: it then looks into Postgres, where all of it stands."""
    assert not await bus.outbound.nudged(within=NOW)
    await bus.bulletin.publish(Batch(outbound=["telegram", "telegram", "email"]))
    assert await bus.outbound.nudged(within=SOON)
    assert not await bus.outbound.nudged(within=NOW)


async def test_a_waiting_bridge_is_woken_also_after_redis_was_emptied(bus: BusWorld) -> None:
    """A reply goes out when it is there, and not with the next poll."""
    await bus.outbound.nudged(within=NOW)
    await bus.forget_everything()
    await bus.outbound.nudged(within=NOW)
    waiting = asyncio.create_task(bus.outbound.nudged(within=timedelta(seconds=2)))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    await bus.bulletin.publish(Batch(outbound=["telegram"]))

    assert await waiting
    assert time.monotonic() - started < 1
