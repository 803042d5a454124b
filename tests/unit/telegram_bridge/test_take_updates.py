"""What becomes of what people write."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from services.telegram_bridge.actions.take_updates import take_update, take_updates
from services.telegram_bridge.ports import TokenRefused
from services.telegram_bridge.rules.message import FULL, again_data
from services.telegram_bridge.rules.people import People
from services.telegram_bridge.rules.place import Place
from services.telegram_bridge.rules.updates import ButtonPressed, OtherMessage, PassedOver, Update
from shared.actions.keep_door import Bounds, Doorkeeper
from shared.errors import TryLater
from tests.unit.telegram_bridge.bridge_world import BridgeWorld, HandState, text


class Over(Exception):
    """The test has seen enough."""


async def take(world: BridgeWorld, state: HandState, *batches: Sequence[Update] | Exception) -> None:
    bridge, epoch = await world.bridge()
    world.telegram.batches = [*batches, Over()]
    with contextlib.suppress(Over):
        await take_updates(world.door, state, bridge=bridge, epoch=epoch, poll=timedelta(seconds=30))


async def test_what_was_taken_is_noted_and_never_before() -> None:
    """The mark in Postgres is what Telegram forgets by."""
    world, state = BridgeWorld(), HandState(next_update=5)
    await take(world, state, [text(5, "a"), text(6, "b")], [], [text(9, "c")])

    assert world.texts() == ["a", "b", "c"]
    assert world.telegram.offsets == [5, 7, 7, 10]
    assert state.next_update == 10
    (first, *_) = world.tables.runs.values()
    assert (first.sender, first.source, first.principal) == ("7", "telegram", "person:telegram:7")
    assert [wake_up.conversation for wake_up in world.bus.waiting] == ["telegram:7"] * 3


async def test_met_again_it_is_the_same_run() -> None:
    """Whoever was killed before it noted that, met it twice."""
    world = BridgeWorld()
    await take(world, HandState(), [text(5, "a")])
    await take(world, HandState(), [text(5, "a"), text(6, "b")])
    assert world.texts() == ["a", "b"]


async def test_whose_line_is_full_is_told_so_and_holds_up_nobody() -> None:
    """Whoever writes faster than is answered must not keep everybody else waiting; nor is that person left to guess."""
    world, state = BridgeWorld(capacity=1), HandState()
    bridge, epoch = await world.bridge()
    await take_update(world.door, text(4, "before"))
    world.telegram.batches = [[text(5, "a"), text(6, "b"), text(7, "hello", sender=8)], Over()]
    with pytest.raises(Over):
        await take_updates(world.door, state, bridge=bridge, epoch=epoch, poll=timedelta(0))

    assert world.texts() == ["before", "hello"]
    assert state.next_update == 8
    assert [row.body["text"] for row in world.deliveries.rows.values() if row.kind == "notice"] == [FULL]
    assert world.nudged == 1


async def test_when_all_lines_together_are_full_telegram_keeps_what_comes() -> None:
    """It is nobody's own fault then: what can't be accepted now is not forgotten, and the mark stays."""
    world, state = BridgeWorld(), HandState()
    door = replace(world.door, inbox=Doorkeeper(world.inbox, world.clock, Bounds(of_all=1)))
    bridge, epoch = await world.bridge()
    await take_update(door, text(4, "before"))

    async def sleep(seconds: float) -> None:
        assert state.next_update is None
        world.clock.slept.append(seconds)
        world.clock.advance(seconds)
        if len(world.clock.slept) == 2:
            for row in world.tables.runs.values():
                row.state = "done"

    world.clock.sleep = sleep  # type: ignore[method-assign]  # time by hand
    world.telegram.batches = [[text(5, "a")], Over()]
    with pytest.raises(Over):
        await take_updates(door, state, bridge=bridge, epoch=epoch, poll=timedelta(0))
    assert world.texts() == ["before", "a"]
    assert state.next_update == 6


async def test_telegrams_faults_are_waited_for() -> None:
    """It says for how long; a token that was taken away is asked for once a minute."""
    world = BridgeWorld()
    await take(world, HandState(), TryLater("x"), TryLater("x", after=7), TokenRefused("no"), [text(5)], TryLater("x"))
    assert world.clock.slept == [1.0, 7.0, 60.0, 1.0]
    assert world.texts() == ["hello"]


async def test_who_leads_no_more_takes_no_more() -> None:
    """The next one meets it again, and accepts it once."""
    world, state = BridgeWorld(), HandState(leads=0)
    bridge, epoch = await world.bridge()
    world.telegram.batches = [[text(5)], Over()]
    await take_updates(world.door, state, bridge=bridge, epoch=epoch, poll=timedelta(0))
    assert state.next_update is None


async def test_an_old_mark_is_not_used() -> None:
    """After a week of silence Telegram may count from below, and would forget what is new."""
    world, state = BridgeWorld(), HandState(next_update=900_000, age=timedelta(days=8))
    await take(world, state, [], [text(12)], [])
    assert world.telegram.offsets == [None, None, 13, 13]
    assert state.next_update == 13


async def test_strangers_are_not_answered_and_not_stored() -> None:
    """Whoever finds the bot must not learn that anybody is there."""
    world = BridgeWorld(People(frozenset({7})))
    for update in (
        text(5, sender=666),
        OtherMessage(6, Place(666), 666, "photo"),
        ButtonPressed(7, "p", 666, 666, again_data(world.due("x"))),
        PassedOver(8, "group"),
    ):
        await take_update(world.door, update)
    assert world.texts() == []
    assert len(world.deliveries.rows) == 1
    assert world.telegram.answered == []


async def test_a_picture_is_answered_by_one_sentence_and_an_album_as_well() -> None:
    """Also when it is met again."""
    world = BridgeWorld()
    for update in (
        OtherMessage(5, Place(7), 7, "photo", "a1"),
        OtherMessage(6, Place(7), 7, "photo", "a1"),
        OtherMessage(7, Place(7, 3), 7, "voice"),
        OtherMessage(7, Place(7, 3), 7, "voice"),
    ):
        await take_update(world.door, update)
    assert [row.conversation for row in world.deliveries.rows.values()] == ["telegram:7", "telegram:7:3"]
    assert world.nudged == 2


async def test_a_button_that_means_nothing_says_so() -> None:
    """An old client may send anything."""
    world = BridgeWorld()
    for data in ("", "again:", "again:x", again_data(world.due("x")), "other"):
        await take_update(world.door, ButtonPressed(5, "p", 7, 7, data))
    assert world.telegram.answered == [("p", "That is no longer possible.")] * 5


async def test_a_press_that_can_not_be_answered_is_taken_all_the_same() -> None:
    """Telegram forgets a press after some minutes; what it asked for is done."""
    world = BridgeWorld()
    world.telegram.faults = [TryLater("away")]
    await take_update(world.door, ButtonPressed(5, "p", 7, 7, "x"))
