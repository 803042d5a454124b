"""Whose a secret is: looked up in Postgres, many at once, and known for two seconds."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.api_key import ApiKey, hash_of, is_secret
from shared.errors import LucydError, TryLater
from shared.ports.api_keys import KeyFinder
from shared.ports.clock import Clock

KNOWN_FOR = timedelta(seconds=2)
"""How long a revoked key may still be good, and a new one that was tried too early unknown."""

MOST_KNOWN = 10_000
MOST_WAITING = 1_000
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class _Known:
    key: ApiKey | None
    until: float


class Keyring:
    """Named keys by their secrets. What is asked meanwhile is looked up together, by one query at a time, so that a
    flood of guesses takes one connection and no more.

    Secrets are compared by their hash alone, so how long that takes tells nothing about them. ``most_known`` good
    and as many bad ones are remembered, ``most_waiting`` may be looked up at a time.
    """

    def __init__(
        self, keys: KeyFinder, clock: Clock, *, most_known: int = MOST_KNOWN, most_waiting: int = MOST_WAITING
    ) -> None:
        self._most_known = most_known
        self._most_waiting = most_waiting
        self._keys = keys
        self._clock = clock
        # Apart, so that no number of guesses makes good keys forgotten.
        self._good: dict[bytes, _Known] = {}
        self._bad: dict[bytes, _Known] = {}
        self._waiting: dict[bytes, asyncio.Future[ApiKey | None]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def find(self, secret: bytes) -> ApiKey | None:
        """The key with this secret; ``None`` for what is none, or is none any more. Raises ``TryLater``."""
        if not is_secret(secret):
            return None
        hash = hash_of(secret)
        known = self._good.get(hash) or self._bad.get(hash)
        if known is not None and self._clock.monotonic() < known.until:
            return known.key
        asked = self._waiting.get(hash)
        if asked is None:
            # A flood of guesses turns away no key that was good a moment ago.
            if len(self._waiting) >= self._most_waiting and hash not in self._good:
                raise TryLater("too many keys are looked up at the moment", after=1)
            asked = self._waiting[hash] = asyncio.get_running_loop().create_future()
            if self._asking is None:
                self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(asked)

    async def _ask(self) -> None:
        fault: Exception = TryLater("the key was not looked up", after=1)
        try:
            while hashes := list(self._waiting)[:AT_ONCE]:
                await self._ask_for(hashes)
        except LucydError as passing:
            fault = passing
        finally:
            # Whatever happened, nobody is left waiting.
            self._asking = None
            left, self._waiting = self._waiting, {}
            for asked in left.values():
                asked.set_exception(fault)
                asked.exception()  # whoever asked may be gone

    async def _ask_for(self, hashes: Sequence[bytes]) -> None:
        # Counted from before the question: the answer may be as old as that.
        until = self._clock.monotonic() + KNOWN_FOR.total_seconds()
        found = await self._keys.find(hashes)
        for hash in hashes:
            self._note(hash, _Known(found.get(hash), until))
            self._waiting.pop(hash).set_result(found.get(hash))

    def _note(self, hash: bytes, known: _Known) -> None:
        self._good.pop(hash, None)
        self._bad.pop(hash, None)
        those = self._bad if known.key is None else self._good
        if len(those) >= self._most_known:
            del those[next(iter(those))]  # the one that was looked up longest ago
        those[hash] = known
