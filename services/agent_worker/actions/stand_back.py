"""Leave new work to the older workers of this machine while its processors are full."""

from collections.abc import Callable, Sequence

import structlog

from services.agent_worker.ports import Processors
from services.agent_worker.rules.standing_back import FINDS, TAKES_FOR, boot_of, is_full, is_surplus
from shared.errors import TryLater
from shared.messages.worker_figures import TAKES
from shared.ports.clock import Clock
from shared.ports.colleagues import Colleagues
from shared.ports.fleet import Identity

log = structlog.get_logger(__name__)

EVERY = 1.0


class StandBack:
    """Looks each second. Whoever stands back takes only what nobody else has taken, and says with ``looked`` whether
    there was some: often enough in a row, and this worker takes what comes again."""

    def __init__(
        self,
        me: Identity,
        *,
        processors: Processors,
        peers: Callable[[], Sequence[Identity]],
        colleagues: Colleagues,
        clock: Clock,
    ) -> None:
        """``peers`` are what lives on all machines, as it was seen last; services that are no workers among them."""
        self._me = me
        self._processors = processors
        self._peers = peers
        self._colleagues = colleagues
        self._clock = clock
        self._is_full = False
        self._finds = 0
        self._takes_until: float | None = None
        self.stands_back = False

    @property
    def machine(self) -> str:
        """Names the machine and the processors of it that this worker may use; for its figures."""
        return f"{boot_of(self._me.boot_id)}/{self._processors.name}"

    @property
    def taking(self) -> str:
        """For the monitor: whether this worker takes what comes, and if not, why."""
        return "no (processors are full)" if self.stands_back else TAKES

    async def watch(self) -> None:
        """Look each second until cancelled."""
        while True:
            await self._clock.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        """Look once. Colleagues are asked only while the processors are full."""
        self._is_full = is_full(self._processors.busy(), was_full=self._is_full)
        stands_back = self._is_full and await self._is_surplus() and not self._is_needed()
        if stands_back != self.stands_back:
            log.debug("worker_stands_back" if stands_back else "worker_takes_again")
            self._finds = 0
        self.stands_back = stands_back

    def looked(self, *, found: bool) -> None:
        """A look for what was left has ended, while standing back."""
        self._finds = self._finds + 1 if found else 0
        if self._finds >= FINDS:
            log.debug("worker_takes_again", why="nobody else did")
            self._finds = 0
            self.stands_back = False
            self._takes_until = self._clock.monotonic() + TAKES_FOR.total_seconds()

    def _is_needed(self) -> bool:
        return self._takes_until is not None and self._clock.monotonic() < self._takes_until

    async def _is_surplus(self) -> bool:
        boot = boot_of(self._me.boot_id)
        older = [
            peer.id
            for peer in self._peers()
            if peer.service == self._me.service and peer.id < self._me.id and boot_of(peer.boot_id) == boot
        ]
        if len(older) < self._processors.count:
            return False
        try:
            told = await self._colleagues.figures(older)
        except TryLater:
            return False  # while nobody can tell, everybody takes
        return is_surplus(self.machine, self._processors.count, list(told.values()))
