"""A key that is revoked lets nobody stay: who was let in with it and is still waiting, or listening, is sent away."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta

import structlog

from services.gateway.actions.look_up_key import Keyring
from shared.errors import TryLater
from shared.ports.clock import Clock

log = structlog.get_logger(__name__)

LOOK_EVERY = timedelta(seconds=1)


class Stay:
    """One request under way, by the secret that it came with. ``is_over``: its key was revoked meanwhile."""

    __slots__ = ("_task", "is_over", "secret", "since")

    def __init__(self, secret: bytes, since: float) -> None:
        self.secret = secret
        self.since = since
        self.is_over = False
        self._task = asyncio.current_task()

    def end(self) -> None:
        """Break it off."""
        if not self.is_over and self._task is not None:
            self.is_over = True
            self._task.cancel()

    def was_ended(self) -> bool:
        """Whether its task was cancelled by ``end`` and by nothing else; then it goes on."""
        return self.is_over and self._task is not None and self._task.uncancel() == 0


class Stays:
    """All requests under way that named keys have let in. Most are over before anybody looks."""

    def __init__(self, keyring: Keyring, clock: Clock) -> None:
        self._keyring = keyring
        self._clock = clock
        self._stays: set[Stay] = set()

    @contextlib.contextmanager
    def of(self, secret: bytes) -> Iterator[Stay]:
        """As long as the block lasts, the task that runs it may be cancelled."""
        stay = Stay(secret, self._clock.monotonic())
        self._stays.add(stay)
        try:
            yield stay
        finally:
            self._stays.discard(stay)

    async def watch(self) -> None:
        """Look every second, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_EVERY.total_seconds())
            await self.look()

    async def look(self) -> None:
        """End those whose key is good no more. While Postgres is away nobody is sent away."""
        until = self._clock.monotonic() - LOOK_EVERY.total_seconds()
        secrets = {stay.secret for stay in self._stays if stay.since <= until}
        bad = {secret for secret in await asyncio.gather(*map(self._if_bad, secrets)) if secret is not None}
        for stay in [stay for stay in self._stays if stay.secret in bad]:
            stay.end()

    async def _if_bad(self, secret: bytes) -> bytes | None:
        try:
            return None if await self._keyring.find(secret) is not None else secret
        except TryLater as fault:
            log.warning("key_not_looked_up", reason=str(fault))
            return None
