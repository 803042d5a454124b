"""Keep the memory of this worker within its limit, at first without anybody noticing, in the end by starting anew."""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from services.agent_worker.actions.remember_history import Histories
from services.agent_worker.actions.take_work import WorkInHand

log = structlog.get_logger(__name__)

EVERY = 1.0
ENOUGH = 0.9
"""Of the limit: below it work is taken again, so that a worker at the edge does not change its mind each second."""


class MindMemory:
    """Looks each second. Above the limit it forgets histories; still above, the worker takes nothing new and passes on
    what waits; with nothing in hand any more and still above, it ends, to be started anew."""

    def __init__(
        self,
        hand: WorkInHand,
        histories: Histories,
        *,
        limit: int,
        resident: Callable[[], int],
        give_back: Callable[[], None],
    ) -> None:
        """``limit`` is bytes, 0 for none. ``give_back`` has the system take back what is free already."""
        self._hand = hand
        self._histories = histories
        self._limit = limit
        self._resident = resident
        self._give_back = give_back
        self._has_forgotten = False
        self._is_paused = False

    @property
    def taking(self) -> str:
        """For the monitor: whether this worker takes work, and if not, why."""
        return "no (memory)" if self._is_paused else "yes"

    async def watch(self, *, sleep: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        """Look each second; returns when this process is to be started anew."""
        while True:
            await sleep(EVERY)
            if self._limit and not self.look():
                return

    def look(self) -> bool:
        """Look once; false when this process is to be started anew."""
        used = self._resident()
        if used <= self._limit * (ENOUGH if self._is_paused else 1):
            self._has_forgotten = False
            if self._is_paused:
                self._is_paused = False
                log.info("memory_is_enough_again", resident_mb=used // 1_000_000)
                self._hand.resume()
            return True
        if not self._has_forgotten:
            self._has_forgotten = True
            self._histories.forget()
            self._give_back()
            return True
        if not self._is_paused:
            self._is_paused = True
            log.warning("memory_limit_reached", resident_mb=used // 1_000_000, limit_mb=self._limit // 1_000_000)
            self._hand.pause()
            return True
        self._histories.forget()  # of what has ended meanwhile
        self._give_back()
        if self._hand.count or self._resident() <= self._limit * ENOUGH:
            return True
        log.warning("worker_starts_anew", why="memory", resident_mb=used // 1_000_000)
        return False
