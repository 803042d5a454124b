"""Keys are looked up together, known for two seconds, and nobody's guess makes a good one forgotten."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from services.gateway.actions.look_up_key import KNOWN_FOR, Keyring
from shared.adapters.inmemory.api_keys import InMemoryApiKeys
from shared.adapters.inmemory.clock import ManualClock
from shared.domain.api_key import ApiKey, hash_of
from shared.errors import TryLater
from shared.ids import new_id
from tests.api_keys import new_secret

PHONE = ApiKey("phone", frozenset({"chat"}))


class Asked:
    """A store that counts what it is asked, and may be away or take its time."""

    def __init__(self, keys: InMemoryApiKeys) -> None:
        self._keys = keys
        self.batches: list[int] = []
        self.fault: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def find(self, hashes: Collection[bytes]) -> Mapping[bytes, ApiKey]:
        self.batches.append(len(hashes))
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault
        return await self._keys.find(hashes)


class World:
    """A keyring with one good key."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.keys = InMemoryApiKeys(self.clock)
        self.asked = Asked(self.keys)
        self.ring = Keyring(self.asked, self.clock)
        self.secret = new_secret().encode()

    async def find(self, secret: bytes | None = None) -> ApiKey | None:
        return await self.ring.find(self.secret if secret is None else secret)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.keys.make(new_id(), "phone", scopes=["chat"], hash=hash_of(world.secret))
    return world


async def test_a_key_is_looked_up_once_in_two_seconds(world: World) -> None:
    """Each request would else cost a query."""
    for _ in range(3):
        assert await world.find() == PHONE
    assert world.asked.batches == [1]
    world.clock.advance(KNOWN_FOR.total_seconds())
    assert await world.find() == PHONE
    assert world.asked.batches == [1, 1]


async def test_a_revoked_key_is_good_for_two_seconds_at_most(world: World) -> None:
    """And then no more, without anybody starting anything anew."""
    await world.find()
    await world.keys.revoke("phone")
    world.clock.advance(KNOWN_FOR.total_seconds() - 0.01)
    assert await world.find() == PHONE
    world.clock.advance(0.01)
    assert await world.find() is None


async def test_what_is_no_secret_is_never_looked_up(world: World) -> None:
    """Most guesses, and tokens of other houses, cost nothing."""
    for given in (b"", b"guess", b"lk_short", world.secret + b"x", world.secret[:-1] + b" ", b"sk_" + world.secret[3:]):
        assert await world.find(given) is None
    assert world.asked.batches == []


async def test_what_nobody_has_is_known_too(world: World) -> None:
    """The same guess again is not looked up again."""
    guess = new_secret().encode()
    assert [await world.find(guess) for _ in range(3)] == [None] * 3
    assert world.asked.batches == [1]


async def test_a_flood_is_looked_up_by_one_query_at_a_time(world: World) -> None:
    """It takes one connection, however many guess; and who has the same key asks once."""
    world.asked.answers.clear()
    first = asyncio.create_task(world.find())
    await asyncio.sleep(0)
    rest = [asyncio.create_task(world.find(new_secret().encode())) for _ in range(250)]
    twins = [asyncio.create_task(world.find()) for _ in range(5)]
    await asyncio.sleep(0)
    world.asked.answers.set()
    assert await asyncio.gather(first, *twins) == [PHONE] * 6
    assert await asyncio.gather(*rest) == [None] * 250
    assert len(world.asked.batches) <= 5
    assert sum(world.asked.batches) == 251


async def test_no_more_wait_than_may(world: World) -> None:
    """A store that does not answer must not fill the gateway's memory."""
    world.ring = Keyring(world.asked, world.clock, most_waiting=2)
    world.asked.answers.clear()
    waiting = [asyncio.create_task(world.find(new_secret().encode())) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TryLater):
        await world.find()
    world.asked.answers.set()
    assert await asyncio.gather(*waiting) == [None, None]


async def test_a_flood_of_guesses_turns_away_no_key_that_was_good_a_moment_ago(world: World) -> None:
    """Whoever guesses with a thousand connections must not shut the door for everybody else."""
    world.ring = Keyring(world.asked, world.clock, most_waiting=2)
    assert await world.find() == PHONE
    world.clock.advance(KNOWN_FOR.total_seconds())
    world.asked.answers.clear()
    waiting = [asyncio.create_task(world.find(new_secret().encode())) for _ in range(2)]
    await asyncio.sleep(0)
    good = asyncio.create_task(world.find())
    await asyncio.sleep(0)
    world.asked.answers.set()
    assert await good == PHONE
    assert await asyncio.gather(*waiting) == [None, None]


async def test_while_the_store_is_away_a_known_key_goes_on_and_others_come_later(world: World) -> None:
    """They are asked to come again: nobody is told that their key is not good."""
    await world.find()
    world.asked.fault = TryLater("Postgres can't be reached", after=1)
    assert await world.find() == PHONE
    with pytest.raises(TryLater, match="Postgres"):
        await world.find(new_secret().encode())
    world.clock.advance(KNOWN_FOR.total_seconds())
    with pytest.raises(TryLater):
        await world.find()
    world.asked.fault = None
    assert await world.find() == PHONE


async def test_who_gives_up_waiting_harms_nobody_else(world: World) -> None:
    """A client that hangs up takes its request along, and not the answer of others."""
    world.asked.answers.clear()
    leaving, staying = asyncio.create_task(world.find()), asyncio.create_task(world.find())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    world.asked.answers.set()
    assert await staying == PHONE


async def test_guesses_do_not_make_good_keys_forgotten(world: World) -> None:
    """What is remembered is bounded, good and bad apart."""
    world.ring = Keyring(world.asked, world.clock, most_known=3)
    await world.find()
    for _ in range(10):
        await world.find(new_secret().encode())
    asked = len(world.asked.batches)
    assert await world.find() == PHONE
    assert len(world.asked.batches) == asked
