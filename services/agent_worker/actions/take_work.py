"""Take wake-ups, give out slots fairly among the principals, and hold each conversation once."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from services.agent_worker.actions.desk import Desk
from services.agent_worker.actions.remember_history import Histories
from services.agent_worker.actions.serve_conversation import Fenced, InHand, Served, serve_conversation
from services.agent_worker.actions.stand_back import StandBack
from services.agent_worker.rules.fair_share import FairShare
from services.agent_worker.rules.lines import Lines
from shared.errors import TryLater
from shared.ports.bus import WakeUp, WakeUps
from shared.ports.runs import Runs

log = structlog.get_logger(__name__)

WAIT_FOR_WORK = timedelta(seconds=1)
PAUSE_WITHOUT_REDIS = 0.5
READ_ON_EVERY = timedelta(milliseconds=50)
"""How often a worker without a free slot looks at the stream: what it finds there is nobody else's either, and a flood
must not hide what stands behind it."""

LOOK_EVERY = 0.05
"""Seconds: how often a worker that stands back looks for what nobody else has taken."""

READ_AT_ONCE = 500
LONGEST_LINES = 10_000
"""Conversations that wait in one worker. What comes beyond them is left to the sweep, as it stands in Postgres."""


class WorkInHand:
    """The conversations this process works on, and those that wait here until their principal has room."""

    def __init__(
        self, desk: Desk, histories: Histories, *, share: FairShare, isolate: Callable[[str], None] = lambda _: None
    ) -> None:
        """``isolate`` has a conversation worked on by a process that does nothing else."""
        self._isolate = isolate
        desk.suspects.when_room(self.take)
        self._desk = desk
        self._histories = histories
        self._slots = share.slots
        self._lines = Lines(share, most=LONGEST_LINES)
        self._principals: dict[str, str] = {}
        self._paused = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._in_hand: dict[str, InHand] = {}
        self._told_early: dict[str, tuple[UUID, str]] = {}
        self._changed = asyncio.Event()
        self._fault: BaseException | None = None
        self._broke = asyncio.Event()
        self.reading = asyncio.Lock()
        """Held while wake-ups are taken: what is read in that moment is nobody else's."""
        self.served = 0

    @property
    def count(self) -> int:
        """How many are in hand."""
        return len(self._tasks)

    @property
    def free(self) -> int:
        """How many more could be begun."""
        return max(0, self._slots - len(self._tasks)) if self.takes else 0

    @property
    def takes(self) -> bool:
        """Whether anything new is taken at all."""
        return not (self._paused or self._desk.draining.is_set())

    @property
    def in_line(self) -> int:
        """How many wait here."""
        return len(self._lines)

    @property
    def waits(self) -> timedelta:
        """For how long the first of those has waited."""
        since = self._lines.since
        return timedelta(0) if since is None else timedelta(seconds=max(0.0, self._desk.clock.monotonic() - since))

    @property
    def slots(self) -> int:
        """How many can be in hand at a time."""
        return self._slots

    @property
    def full(self) -> Sequence[str]:
        """Principals that have no room here, so that nothing of theirs need be looked for."""
        return self._lines.full()

    def has_room(self, principal: str) -> bool:
        """Whether one more of this principal would begin at once."""
        return self.free > 0 and self._lines.has_room(principal)

    def take(self, conversation: str, principal: str = "", *, entry: str = "") -> None:
        """Work on a conversation as soon as its principal has room; one that is in hand is looked at once more when it
        is done, and one that waits keeps its place.

        A worker that takes nothing more passes it on. Without a principal it is nobody's until its claim tells.
        """
        if conversation in self._tasks:
            self._again.add(conversation)
            self._desk.outlet.acknowledge(entry)
        elif not self.takes:
            self._desk.outlet.wake(conversation, principal)
            self._desk.outlet.acknowledge(entry)
        elif conversation not in self._lines and self.has_room(principal):
            self._begin(conversation, principal, entry)
        else:
            # Acknowledged at once: Postgres has it, and when this process dies the sweep of a peer finds it there.
            self._lines.wait(conversation, principal, now=self._desk.clock.monotonic())
            self._desk.outlet.acknowledge(entry)

    def pause(self) -> None:
        """Begin nothing more; what waits here is passed on to whoever has room."""
        self._paused = True
        self.pass_on()

    def resume(self) -> None:
        """Take work again."""
        self._paused = False
        self._changed.set()

    def pass_on(self) -> Sequence[str]:
        """Wake peers for everything that waits here; which conversations."""
        waited = self._lines.clear()
        for conversation, principal in waited:
            self._desk.outlet.wake(conversation, principal)
        return [conversation for conversation, _ in waited]

    def _begin(self, conversation: str, principal: str, entry: str = "") -> None:
        task = asyncio.create_task(self._serve(conversation, entry), name=f"conversation {conversation}")
        self._tasks[conversation] = task
        self._principals[conversation] = principal
        self._lines.begun(principal)
        task.add_done_callback(lambda done: self._ended(conversation, done))

    def _fill(self) -> None:
        while self.free > 0 and (first := self._lines.next()) is not None:
            self._begin(*first)

    @property
    def conversations(self) -> list[str]:
        """Those in hand."""
        return list(self._tasks)

    async def watch(self) -> None:
        """Until a conversation's task fails in a way that only a new process can mend; then raises that fault."""
        await self._broke.wait()
        if self._fault is not None:
            raise self._fault

    async def slot(self, within: timedelta = timedelta(seconds=1)) -> None:
        """Wait until a slot may be free, but not for longer than this."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within.total_seconds()):
                await self._changed.wait()

    async def empty(self) -> None:
        """Wait until nothing is in hand."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def drop(self) -> list[str]:
        """Stop everything where it is; what was not stored is done again by whoever comes next."""
        dropped = list(self._tasks)
        self._lines.clear()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        return dropped

    async def _serve(self, conversation: str, entry: str) -> None:
        while True:
            self._again.discard(conversation)
            try:
                served = await serve_conversation(
                    conversation,
                    self._desk,
                    self._histories,
                    entry=entry,
                    on_claim=lambda in_hand: self._claimed(conversation, in_hand),
                    yields=lambda: self._yields(conversation),
                )
                self._follow_up(conversation, served)
            except Fenced:
                raise  # only a new process can mend that
            except Exception:
                # One conversation's fault is not the others'. The sweep finds it again while its run is open.
                log.exception("conversation_broke", conversation=conversation)
            self.served += 1
            entry = ""
            if conversation not in self._again or self._yields(conversation):
                return

    def _yields(self, conversation: str) -> bool:
        """Whether its slot is for somebody else before its next run: a long line behind one message is no privilege."""
        return not self.takes or self._lines.comes_before(self._principals[conversation])

    def _follow_up(self, conversation: str, served: Served) -> None:
        if served.alone:
            self._isolate(conversation)
        self._leave_room(conversation)
        if served.again_in == timedelta(0):
            self._again.add(conversation)
        elif served.again_in is not None:
            loop = asyncio.get_running_loop()
            principal = self._principals[conversation]
            loop.call_later(served.again_in.total_seconds(), self._come_back, conversation, principal)

    def _leave_room(self, conversation: str) -> None:
        if (suspect := self._desk.suspects.leave(conversation)) is not None:
            self.take(suspect)

    def _come_back(self, conversation: str, principal: str) -> None:
        if self.takes:  # else a peer's sweep finds it
            self.take(conversation, principal)

    @property
    def epochs(self) -> dict[str, int]:
        """The epoch of each claim in hand."""
        return {conversation: in_hand.epoch for conversation, in_hand in self._in_hand.items()}

    def stop(self, conversation: str, epoch: int, reason: str) -> None:
        """End the run that is in hand under this epoch."""
        in_hand = self._in_hand.get(conversation)
        if in_hand is not None and in_hand.epoch == epoch:
            in_hand.stop.ask(reason)

    def stop_run(self, conversation: str, run: UUID, reason: str) -> None:
        """End this run, if it is the one in hand; a conversation that is not here is somebody else's."""
        in_hand = self._in_hand.get(conversation)
        if in_hand is not None and in_hand.run == run:
            in_hand.stop.ask(reason)
        elif conversation in self._tasks:
            self._told_early[conversation] = (run, reason)  # its claim may be on its way, and may not know of it

    def _claimed(self, conversation: str, in_hand: InHand) -> None:
        self._in_hand[conversation] = in_hand
        if in_hand.principal != self._principals[conversation]:
            self._lines.ended(self._principals[conversation])
            self._lines.begun(in_hand.principal)
            self._principals[conversation] = in_hand.principal
            self._fill()
        run, reason = self._told_early.pop(conversation, (None, ""))
        if run == in_hand.run:
            in_hand.stop.ask(reason)

    def overtaken(self, conversation: str, epoch: int) -> None:
        """Somebody else has raised the epoch, a reset for one: stop the attempt, its tools and its model call."""
        task = self._tasks.get(conversation)
        if task is not None and self.epochs.get(conversation) == epoch:
            log.info("attempt_overtaken", conversation=conversation, epoch=epoch)
            self._again.add(conversation)
            task.cancel()

    def _ended(self, conversation: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(conversation, None)
        self._in_hand.pop(conversation, None)
        self._told_early.pop(conversation, None)
        principal = self._principals.pop(conversation)
        self._lines.ended(principal)
        self._leave_room(conversation)
        fault = None if task.cancelled() else task.exception()
        if fault is None and conversation in self._again:
            self._again.discard(conversation)
            # What waits behind the attempt that was stopped, or came just as it ended.
            now = self._desk.clock.monotonic()
            if not self.takes or not self._lines.wait(conversation, principal, now=now):
                self._desk.outlet.wake(conversation, principal)
        self._fill()
        if self.free or not self._tasks:
            self._changed.set()
        if fault is not None:
            self._fault = fault
            self._broke.set()


async def take_work(
    wake_ups: WakeUps,
    runs: Runs,
    hand: WorkInHand,
    *,
    sleep: Callable[[float], Coroutine[Any, Any, None]],
    surplus: StandBack | None = None,
) -> None:
    """Take wake-ups until cancelled. A Redis that is away costs nothing: the sweep finds the work in Postgres.

    While ``surplus`` stands back, only what nobody else has taken between two looks is taken.
    """
    mark = ""
    while True:
        if not hand.takes:
            await hand.slot()
            continue
        try:
            if surplus is None or not surplus.stands_back:
                await _take_what_comes(wake_ups, runs, hand)
                continue
            async with hand.reading:
                left, mark = await wake_ups.take_left(mark=mark, limit=1)
                await _begin(left, runs, hand)
            surplus.looked(found=bool(left))
            await sleep(LOOK_EVERY)
        except TryLater as fault:
            log.warning("wake_ups_not_read", reason=str(fault))
            await sleep(PAUSE_WITHOUT_REDIS)


async def _take_what_comes(wake_ups: WakeUps, runs: Runs, hand: WorkInHand) -> None:
    is_free = hand.free > 0
    limit, wait = (hand.free, WAIT_FOR_WORK) if is_free else (READ_AT_ONCE, timedelta(0))
    async with hand.reading:
        taken = await wake_ups.take(limit=limit, wait=wait)
        await _begin(taken, runs, hand)
    if not is_free and len(taken) < READ_AT_ONCE:
        await hand.slot(READ_ON_EVERY)


async def _begin(taken: Sequence[WakeUp], runs: Runs, hand: WorkInHand) -> None:
    for wake_up in await _with_principals(taken, runs):
        hand.take(wake_up.conversation, wake_up.principal, entry=wake_up.entry)


async def _with_principals(taken: Sequence[WakeUp], runs: Runs) -> Sequence[WakeUp]:
    """Whose they are, where whoever woke did not know it."""
    nameless = [wake_up.conversation for wake_up in taken if not wake_up.principal]
    if not nameless:
        return taken
    try:
        principals = await runs.principals(nameless)
    except TryLater:
        return taken  # their claims will tell, as soon as there can be any
    return [
        wake_up if wake_up.principal else replace(wake_up, principal=principals.get(wake_up.conversation, ""))
        for wake_up in taken
    ]
