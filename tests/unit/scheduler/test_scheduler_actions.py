"""What the scheduler does while it leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from services.scheduler.actions.enqueue_due import enqueue_due
from services.scheduler.actions.expire_runs import expire_runs
from services.scheduler.actions.lead import Role, lead_or_stand_by
from services.scheduler.actions.retain import Kept, retain
from services.scheduler.edge.clockwork import Beat, keep_time
from shared.adapters.system_clock import SystemClock
from shared.errors import TryLater
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun


class HandClock:
    """Moves only when somebody sleeps."""

    def __init__(self, now: datetime = datetime(2026, 3, 4, 4, 5, 1, tzinfo=UTC)) -> None:
        self.at = now
        self.slept = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.slept

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(0)


class ListedQueues:
    """Remembers ids; can be away."""

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[str, str, Mapping[str, Any]]] = {}
        self.away: set[str] = set()

    async def enqueue(self, queue: str, job: str, argument: Mapping[str, Any], *, job_id: str) -> bool:
        if queue in self.away:
            raise TryLater("away")
        if job_id in self.jobs:
            return False
        self.jobs[job_id] = (queue, job, argument)
        return True


async def test_two_leaders_in_a_row_ask_once() -> None:
    """The heir starts without memory, and the job's id stands in for it."""
    queues, clock = ListedQueues(), HandClock()
    assert await enqueue_due(queues, clock, {}) == 3
    assert await enqueue_due(queues, clock, {}) == 0
    assert sorted(queues.jobs) == ["consolidate_20260304T0315", "index_20260304T0400", "maintain_20260304T0405"]


async def test_what_could_not_be_asked_for_is_asked_for_later() -> None:
    """Redis may be away at 04:05."""
    queues, clock, asked = ListedQueues(), HandClock(), dict[str, str]()
    queues.away = {"lucyd-maintain"}
    with pytest.raises(TryLater):
        await enqueue_due(queues, clock, asked)
    queues.away = set()
    assert await enqueue_due(queues, clock, asked) == 1
    assert "maintain_20260304T0405" in queues.jobs


class ExpiringRuns:
    """Two runs are overdue."""

    def __init__(self) -> None:
        self.overdue = [uuid4(), uuid4()]
        self.told: list[UUID] = []

    async def expire(self, *, limit: int) -> Sequence[UUID]:
        ended, self.overdue = self.overdue[:limit], self.overdue[limit:]
        return ended

    async def outcomes(self, runs: Sequence[UUID]) -> Sequence[FinishedRun]:
        return [FinishedRun(run, "cli", "1-9", {"state": "failed"}) for run in runs]

    async def published(self, runs: Sequence[UUID], *, told_within: timedelta) -> None:
        self.told.extend(runs)


class Board:
    """Keeps what was published."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    async def publish(self, batch: Batch) -> None:
        self.batches.append(batch)


async def test_whoever_waits_for_an_overdue_run_is_told() -> None:
    """A deadline nobody hears of is a hanging request."""
    runs, board = ExpiringRuns(), Board()
    overdue = list(runs.overdue)
    assert await expire_runs(runs, runs, board) == 2  # type: ignore[arg-type]  # it uses no more of the ports
    assert [ended.run for ended in board.batches[0].finished] == overdue
    assert runs.told == overdue
    assert await expire_runs(runs, runs, board) == 0  # type: ignore[arg-type]
    assert len(board.batches) == 1


class Attic:
    """Counts what is forgotten, in batches."""

    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows

    def _take(self, name: str, limit: int) -> int:
        taken = min(limit, self.rows.get(name, 0))
        self.rows[name] = self.rows.get(name, 0) - taken
        return taken

    async def forget_keys(self, *, limit: int) -> int:
        return self._take("keys", limit)

    async def forget_steps(self, *, ended_for: timedelta, limit: int) -> int:
        assert ended_for == timedelta(days=1)
        return self._take("steps_told", limit)

    async def forget_events(self, *, older_than: timedelta, limit: int) -> int:
        assert older_than == timedelta(days=30)
        return self._take("events", limit)

    async def forget_sentences(self, *, older_than: timedelta, limit: int) -> int:
        assert older_than == timedelta(days=30)
        return self._take("sentences", limit)

    async def forget_schedules(self, *, older_than: timedelta, limit: int) -> int:
        assert older_than == timedelta(days=30)
        return self._take("schedules", limit)

    async def forget_deliveries(self, *, older_than: timedelta, limit: int) -> int:
        assert older_than == timedelta(days=20)
        return self._take("deliveries", limit)

    async def forget_webhooks(self, *, older_than: timedelta, limit: int) -> int:
        assert older_than == timedelta(days=20)
        return self._take("webhooks", limit)

    async def forget_workers(self, *, ended_for: timedelta, limit: int) -> int:
        return self._take("workers", limit)

    async def book_left_open(self, *, limit: int) -> int:
        return self._take("calls_booked", limit)

    async def forget_reservations(self, *, older_than: timedelta, limit: int) -> int:
        assert older_than == timedelta(days=7)
        return self._take("reservations", limit)

    async def forget_costs(self, *, months: int, limit: int) -> int:
        assert months == 84
        return self._take("costs", limit)

    async def forget_blobs(self, *, older_than: timedelta, limit: int) -> int:
        assert older_than == timedelta(days=40)
        assert limit <= 100  # each may be megabytes
        return self._take("attachments", limit)

    async def forget_runs(self, *, older_than: timedelta, limit: int) -> int:
        return self._take("runs", limit)

    async def forget_children(self, *, older_than: timedelta, limit: int) -> int:
        assert self.rows.get("runs", 0) == 0  # a conversation goes when its runs have gone
        assert limit <= 100  # each has many messages
        return self._take("children", limit)


async def test_old_rows_go_in_batches() -> None:
    """Disk stays flat, and no statement grows with the backlog."""
    old = {"keys": 2500, "calls_booked": 1, "reservations": 2001, "workers": 1, "events": 10, "runs": 7, "costs": 3}
    old |= {"children": 201}
    old |= {"schedules": 6, "steps_told": 1001, "sentences": 4, "deliveries": 1002, "webhooks": 5, "attachments": 205}
    attic = Attic(dict(old))
    kept = Kept(
        streams=timedelta(days=1),
        events=timedelta(days=30),
        deliveries=timedelta(days=20),
        attachments=timedelta(days=40),
        runs=timedelta(days=90),
        costs_months=84,
    )
    assert await retain(kept, attic, HandClock()) == old
    assert set(attic.rows.values()) == {0}


async def test_attachments_are_kept_no_longer_than_their_runs() -> None:
    """A run waits for its attachments to go; kept for ever, they would keep it, too."""
    attic = Attic({"attachments": 41, "runs": 7})
    await retain(Kept(timedelta(days=1), None, None, None, timedelta(days=40), 0), attic, HandClock())
    assert attic.rows["attachments"] == attic.rows["runs"] == 0
    attic = Attic({"attachments": 41})
    await retain(Kept(timedelta(days=1), None, None, timedelta(days=40), timedelta(days=90), 0), attic, HandClock())
    assert attic.rows["attachments"] == 0


async def test_what_is_kept_for_ever_is_not_touched() -> None:
    """0 days means for ever, and nobody's history goes by accident."""
    kept = {"events": 10, "runs": 7, "costs": 3, "deliveries": 2, "webhooks": 1, "sentences": 4, "attachments": 3}
    kept |= {"children": 2}
    attic = Attic(dict(kept))
    await retain(Kept(timedelta(days=1), None, None, None, None, 0), attic, HandClock())
    assert attic.rows.items() >= kept.items()


def test_it_looks_more_often_when_things_are_kept_for_a_short_time() -> None:
    """What is kept for two minutes is not looked for once an hour; and nothing is looked for all the time."""
    usual = Kept(timedelta(days=1), timedelta(days=30), timedelta(days=30), timedelta(days=30), None, 84)
    assert usual.look_every == timedelta(minutes=10)
    assert Kept(timedelta(minutes=2), None, None, None, None, 0).look_every == timedelta(seconds=30)
    assert Kept(timedelta(days=1), None, None, None, timedelta(seconds=1), 0).look_every == timedelta(seconds=10)


async def test_a_huge_backlog_is_spread_over_several_times() -> None:
    """A table that grew for a year must not keep the leader busy for an hour."""
    attic = Attic({"keys": 10_000_000})
    gone = await retain(Kept(timedelta(days=1), None, None, None, None, 0), attic, HandClock())
    assert 0 < gone["keys"] < 10_000_000


class Throne:
    """Leadership by hand: first another leads, then we do until it is taken away."""

    def __init__(self, tries_until_won: int) -> None:
        self.left = tries_until_won
        self.taken_away = asyncio.Event()
        self.held = False

    @contextlib.asynccontextmanager
    async def term(self) -> AsyncIterator["Throne | None"]:
        self.left -= 1
        if self.left > 0:
            yield None
            return
        self.held = True
        try:
            yield self
        finally:
            self.held = False

    async def lost(self) -> None:
        await self.taken_away.wait()


async def test_work_is_done_only_while_leading() -> None:
    """Two schedulers at once would be two reminders."""
    throne, clock = Throne(3), HandClock()
    working, roles = asyncio.Event(), list[Role]()
    ended_while_held: list[bool] = []

    async def work() -> None:
        working.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended_while_held.append(throne.held)

    task = asyncio.create_task(lead_or_stand_by(throne, work, clock, roles.append))
    await asyncio.wait_for(working.wait(), 20)
    assert clock.slept == 4  # two tries in vain
    throne.left = 10**9
    throne.taken_away.set()
    async with asyncio.timeout(20):
        while not ended_while_held or roles[-1] != "standby":
            await asyncio.sleep(0)
    assert ended_while_held == [True]  # the work ends first, then the lock is given back
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert [role for role, before in zip(roles, ["", *roles], strict=False) if role != before] == [
        "standby",
        "leader",
        "standby",
    ]


async def test_work_that_fails_ends_the_process() -> None:
    """A scheduler that leads without working is worse than none."""

    async def work() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await asyncio.wait_for(lead_or_stand_by(Throne(1), work, HandClock(), lambda _: None), 20)


async def test_one_failing_beat_stops_neither_the_others_nor_itself() -> None:
    """Deadlines must be kept although retention has a fault."""
    bad, good = 0, 0

    async def fail() -> None:
        nonlocal bad
        bad += 1
        raise RuntimeError("on purpose") if bad == 1 else TryLater("on purpose")

    async def count() -> None:
        nonlocal good
        good += 1

    beats = [Beat("bad", fail, timedelta(seconds=0.1)), Beat("good", count, timedelta(seconds=0.1))]
    task = asyncio.create_task(keep_time(beats, SystemClock()))
    async with asyncio.timeout(5):
        while bad < 3 or good < 3:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    told = good
    await asyncio.sleep(0.3)
    assert good == told


async def test_the_clockwork_breaks_off_what_is_in_hand() -> None:
    """Who lost the leadership stops at once and not at the end of the batch."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(keep_time([Beat("long", long, timedelta(seconds=0.05))], SystemClock()))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ended.is_set()
