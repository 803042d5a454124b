"""Take wake-ups while slots are free, and hold each conversation once."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from services.agent_worker.actions.desk import Desk
from services.agent_worker.actions.remember_history import Histories
from services.agent_worker.actions.serve_conversation import Fenced, InHand, Served, serve_conversation
from shared.errors import TryLater
from shared.ports.bus import WakeUps

log = structlog.get_logger(__name__)

WAIT_FOR_WORK = timedelta(seconds=1)
PAUSE_WITHOUT_REDIS = 0.5


class WorkInHand:
    """The conversations this process works on, at most ``slots`` of them."""

    def __init__(
        self, desk: Desk, histories: Histories, *, slots: int, isolate: Callable[[str], None] = lambda _: None
    ) -> None:
        """``isolate`` has a conversation worked on by a process that does nothing else."""
        self._isolate = isolate
        desk.suspects.when_room(self._take_if_free)
        self._desk = desk
        self._histories = histories
        self._slots = slots
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._in_hand: dict[str, InHand] = {}
        self._told_early: dict[str, tuple[UUID, str]] = {}
        self._changed = asyncio.Event()
        self._fault: BaseException | None = None
        self._broke = asyncio.Event()
        self.served = 0

    @property
    def count(self) -> int:
        """How many are in hand."""
        return len(self._tasks)

    @property
    def free(self) -> int:
        """How many more could be taken."""
        return 0 if self._desk.draining.is_set() else max(0, self._slots - len(self._tasks))

    def take(self, conversation: str, *, entry: str = "") -> None:
        """Work on a conversation; one that is in hand is looked at once more when it is done."""
        if conversation in self._tasks:
            self._again.add(conversation)
            self._desk.outlet.acknowledge(entry)
            return
        task = asyncio.create_task(self._serve(conversation, entry), name=f"conversation {conversation}")
        self._tasks[conversation] = task
        task.add_done_callback(lambda done: self._ended(conversation, done))

    @property
    def conversations(self) -> list[str]:
        """Those in hand."""
        return list(self._tasks)

    async def watch(self) -> None:
        """Until a conversation's task fails in a way that only a new process can mend; then raises that fault."""
        await self._broke.wait()
        if self._fault is not None:
            raise self._fault

    async def slot(self) -> None:
        """Wait until a slot may be free; at most a second."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._changed.wait()

    async def empty(self) -> None:
        """Wait until nothing is in hand."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def drop(self) -> list[str]:
        """Stop everything where it is; what was not stored is done again by whoever comes next."""
        dropped = list(self._tasks)
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
                )
                self._follow_up(conversation, served)
            except Fenced:
                raise  # only a new process can mend that
            except Exception:
                # One conversation's fault is not the others'. The sweep finds it again while its run is open.
                log.exception("conversation_broke", conversation=conversation)
            self.served += 1
            entry = ""
            if conversation not in self._again:
                return

    def _follow_up(self, conversation: str, served: Served) -> None:
        if served.alone:
            self._isolate(conversation)
        self._leave_room(conversation)
        if served.again_in == timedelta(0):
            self._again.add(conversation)
        elif served.again_in is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(served.again_in.total_seconds(), self._take_if_free, conversation)

    def _leave_room(self, conversation: str) -> None:
        if (suspect := self._desk.suspects.leave(conversation)) is not None:
            self._take_if_free(suspect)

    def _take_if_free(self, conversation: str) -> None:
        if self.free > 0:  # else the sweep finds it
            self.take(conversation)

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
        self._leave_room(conversation)
        fault = None if task.cancelled() else task.exception()
        if fault is None and conversation in self._again and not self._desk.draining.is_set():
            self._again.discard(conversation)
            self.take(conversation)  # what waits behind the attempt that was stopped, or came just as it ended
        self._changed.set()
        if fault is not None:
            self._fault = fault
            self._broke.set()


async def take_work(
    wake_ups: WakeUps, hand: WorkInHand, *, sleep: Callable[[float], Coroutine[Any, Any, None]]
) -> None:
    """Take wake-ups until cancelled. A Redis that is away costs nothing: the sweep finds the work in Postgres."""
    while True:
        if hand.free == 0:
            await hand.slot()
            continue
        try:
            taken = await wake_ups.take(limit=hand.free, wait=WAIT_FOR_WORK)
        except TryLater as fault:
            log.warning("wake_ups_not_read", reason=str(fault))
            await sleep(PAUSE_WITHOUT_REDIS)
            continue
        for wake_up in taken:
            hand.take(wake_up.conversation, entry=wake_up.entry)
