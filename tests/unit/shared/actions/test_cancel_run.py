"""Asking for the end of a run: stored first, told second; and who does not heed is ended over their head."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from shared.actions.accept_message import INTERRUPTED, accept_message
from shared.actions.cancel_run import CANCELLED, OVERDUE, cancel_run, end_overdue
from shared.adapters.inmemory.bus import InMemoryBus
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.control import Command
from tests.builders import CONVERSATION, final_write, new_run
from tests.runs_worlds import InMemoryWorld


class Told:
    """A ``Control`` that notes what is told; ``away``: Redis is."""

    def __init__(self, *, away: bool = False) -> None:
        self.commands: list[Command] = []
        self.away = away

    async def tell(self, command: Command) -> None:
        if self.away:
            raise TryLater("Redis can't be reached")
        self.commands.append(command)

    async def hear(self) -> AsyncIterator[Command]:
        for command in self.commands:
            yield command


class Scene:
    """One store, one bus, one run."""

    def __init__(self, *, away: bool = False) -> None:
        self.world = InMemoryWorld()
        self.bus = InMemoryBus(self.world.clock)
        self.control = Told(away=away)

    async def begin(self, *, claimed: bool) -> UUID:
        self.world.me = await self.world.hire()
        run = (await self.world.accept(new_run())).run
        if claimed:
            self.claim = await self.world.claim()
        return run

    async def cancel(self, run: UUID) -> str:
        answer = await cancel_run(run, inbox=self.world.inbox, control=self.control, wake_ups=self.bus)
        return answer.status


async def test_who_has_it_in_hand_is_told() -> None:
    """With the run, its conversation and a sentence for its person."""
    scene = Scene()
    run = await scene.begin(claimed=True)
    assert await scene.cancel(run) == "asked"
    assert scene.control.commands == [Command("cancel", run, CONVERSATION, CANCELLED)]
    assert scene.world.tables.runs[run].state == "running"


async def test_what_nobody_has_in_hand_ends_and_wakes_what_is_behind_it() -> None:
    """Nobody is told: there is nobody to tell."""
    scene = Scene()
    run = await scene.begin(claimed=False)
    assert await scene.cancel(run) == "cancelled"
    assert scene.control.commands == []
    assert [wake_up.conversation for wake_up in scene.bus.waiting] == [CONVERSATION]
    assert await scene.cancel(run) == "ended"


@pytest.mark.parametrize("claimed", [True, False])
async def test_a_redis_that_is_away_only_delays(claimed: bool) -> None:
    """It is stored; the sweep of the worker finds it."""
    scene = Scene(away=True)
    run = await scene.begin(claimed=claimed)
    assert await scene.cancel(run) == ("asked" if claimed else "cancelled")
    if claimed:
        assert await scene.world.runs.cancels({CONVERSATION: scene.claim.epoch}) == {CONVERSATION: CANCELLED}


async def test_a_run_that_is_not_there() -> None:
    """Nothing is told, nothing is woken."""
    scene = Scene()
    await scene.begin(claimed=False)
    assert await scene.cancel(new_id()) == "unknown"
    assert scene.control.commands == []


async def test_an_interrupt_tells_the_worker_as_well() -> None:
    """The person waits for the new message, not for the sweep."""
    scene = Scene()
    run = await scene.begin(claimed=True)
    for control in (scene.control, None):
        new = new_run("stop", when_busy="interrupt")
        accepted = await accept_message(new, inbox=scene.world.inbox, wake_ups=scene.bus, control=control)
        assert accepted.cancels == run
    assert scene.control.commands == [Command("cancel", run, CONVERSATION, INTERRUPTED)]


async def test_who_does_not_heed_is_ended_and_all_are_told() -> None:
    """Once, with everything a normal end has: the future, the stream, and a wake-up for what stands behind it."""
    scene = Scene()
    run = await scene.begin(claimed=True)
    behind = (await scene.world.accept(new_run("and this?"))).run
    await scene.cancel(run)
    inbox, runs = scene.world.inbox, scene.world.runs
    await scene.world.wait(OVERDUE.total_seconds() - 0.1)
    assert await end_overdue(runs, inbox, scene.bus) == 0
    await scene.world.wait(0.2)
    assert await end_overdue(runs, inbox, scene.bus) == 1
    assert await end_overdue(runs, inbox, scene.bus) == 0

    assert (await scene.bus.results([run]))[run]["state"] == "cancelled"
    assert [event.type for event in await scene.bus.read(run, after="0-0")][-1] == "cancelled"
    assert [wake_up.conversation for wake_up in scene.bus.waiting] == [CONVERSATION]
    assert list(await runs.unpublished(older_than=timedelta(0), limit=5)) == []
    assert scene.world.tables.runs[behind].state == "accepted"


async def test_a_run_that_ended_in_time_is_left_alone() -> None:
    """It was asked to end, and had its last word."""
    scene = Scene()
    run = await scene.begin(claimed=True)
    await scene.cancel(run)
    await scene.world.store(scene.claim, final_write(scene.claim))
    await scene.world.wait(60)
    assert await end_overdue(scene.world.runs, scene.world.inbox, scene.bus) == 0
    assert scene.world.tables.runs[run].state == "done"
