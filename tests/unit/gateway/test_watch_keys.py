"""Who came in with a key that is good no more is sent away; nobody else is."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from services.gateway.actions.look_up_key import KNOWN_FOR, Keyring
from services.gateway.actions.watch_keys import Stays
from shared.adapters.inmemory.api_keys import InMemoryApiKeys
from shared.adapters.inmemory.clock import ManualClock
from shared.domain.api_key import ApiKey, hash_of
from shared.errors import TryLater
from shared.ids import new_id
from tests.api_keys import new_secret


class Store:
    """Keys that may be out of reach."""

    def __init__(self, clock: ManualClock) -> None:
        self.keys = InMemoryApiKeys(clock)
        self.is_away = False

    async def find(self, hashes: Collection[bytes]) -> Mapping[bytes, ApiKey]:
        if self.is_away:
            raise TryLater("Postgres can't be reached")
        return await self.keys.find(hashes)


class World:
    """Two keys, and a request of each that waits for ever."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.stays = Stays(Keyring(self.store, self.clock), self.clock)
        self.secrets = {"lost": new_secret().encode(), "kept": new_secret().encode()}
        self.requests: dict[str, asyncio.Task[str]] = {}

    async def begin(self) -> None:
        for name, secret in self.secrets.items():
            await self.store.keys.make(new_id(), name, scopes=["chat"], hash=hash_of(secret))
            self.requests[name] = asyncio.create_task(self._request(secret))
        await asyncio.sleep(0)

    async def _request(self, secret: bytes) -> str:
        with self.stays.of(secret) as stay:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not stay.was_ended():
                    raise
        return "sent away"


@pytest.fixture
async def world() -> World:
    world = World()
    await world.begin()
    return world


async def test_only_who_came_with_the_revoked_key_is_sent_away(world: World) -> None:
    """And the task goes on, so that it can still say so."""
    world.clock.advance(KNOWN_FOR.total_seconds())
    await world.stays.look()
    await world.store.keys.revoke("lost")
    world.clock.advance(KNOWN_FOR.total_seconds())
    await world.stays.look()
    assert await world.requests["lost"] == "sent away"
    assert not world.requests["kept"].done()


async def test_nobody_is_sent_away_because_the_store_is(world: World) -> None:
    """An outage of Postgres ends no stream."""
    await world.store.keys.revoke("lost")
    world.store.is_away = True
    world.clock.advance(KNOWN_FOR.total_seconds())
    await world.stays.look()
    assert not any(task.done() for task in world.requests.values())


async def test_who_is_cancelled_for_another_reason_ends(world: World) -> None:
    """A gateway that stops takes its requests along."""
    world.requests["lost"].cancel()
    with pytest.raises(asyncio.CancelledError):
        await world.requests["lost"]
    assert not world.requests["kept"].done()
