"""What every store of API keys promises, asked of the fake and of Postgres."""

import asyncio
from uuid import UUID

import pytest

from shared.adapters.inmemory.api_keys import InMemoryApiKeys
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.postgres.api_keys import PostgresApiKeys
from shared.domain.api_key import ApiKey, KeyScope, hash_of
from shared.ids import new_id
from shared.ports.api_keys import ApiKeys, Made

OLD, NEW, OTHER = hash_of(b"old"), hash_of(b"new"), hash_of(b"other")


@pytest.fixture(params=["inmemory", "postgres"])
def keys(request: pytest.FixtureRequest) -> ApiKeys:
    if request.param == "inmemory":
        return InMemoryApiKeys(ManualClock())
    return PostgresApiKeys(request.getfixturevalue("database"))


async def make(
    keys: ApiKeys, name: str, hash: bytes, *scopes: KeyScope, rotate: bool = False, id: UUID | None = None
) -> Made:
    return await keys.make(id or new_id(), name, scopes=scopes, hash=hash, rotate=rotate)


async def test_a_key_is_found_by_the_hash_of_its_secret_and_nothing_else(keys: ApiKeys) -> None:
    """Several are looked up at once; those that nobody knows are not in the answer."""
    assert await make(keys, "phone", OLD, "chat", "read") == "made"
    assert await make(keys, "desk", OTHER, "read") == "made"
    found = await keys.find([OLD, NEW, OTHER])
    assert found == {OLD: ApiKey("phone", frozenset({"chat", "read"})), OTHER: ApiKey("desk", frozenset({"read"}))}
    assert await keys.find([NEW]) == {}


async def test_a_revoked_key_is_found_no_more_and_stays_in_the_list(keys: ApiKeys) -> None:
    """Its conversations are still there, and somebody will want to know whose they were."""
    await make(keys, "phone", OLD, "chat")
    assert await keys.revoke("phone")
    assert not await keys.revoke("phone")
    assert not await keys.revoke("nobody")
    assert await keys.find([OLD]) == {}
    (record,) = await keys.all()
    assert (record.name, record.scopes) == ("phone", frozenset({"chat"}))
    assert record.revoked_at is not None


async def test_a_name_is_given_again_only_when_that_is_asked_for(keys: ApiKeys) -> None:
    """Whoever has the name has its conversations: that must never happen by mistake."""
    assert await make(keys, "phone", OLD, "chat") == "made"
    assert await make(keys, "phone", NEW, "chat") == "taken"
    await keys.revoke("phone")
    assert await make(keys, "phone", NEW, "chat") == "revoked"
    assert await keys.find([OLD, NEW]) == {}
    assert await make(keys, "phone", NEW, rotate=True) == "made"
    assert await keys.find([OLD, NEW]) == {NEW: ApiKey("phone", frozenset({"chat"}))}


async def test_a_rotated_key_takes_the_place_of_the_one_before_at_once(keys: ApiKeys) -> None:
    """There is no moment with two good keys, or with none; scopes are kept unless others are given."""
    await make(keys, "phone", OLD, "chat")
    assert await make(keys, "phone", NEW, rotate=True) == "made"
    assert await keys.find([OLD, NEW]) == {NEW: ApiKey("phone", frozenset({"chat"}))}
    assert await make(keys, "phone", OTHER, "admin", rotate=True) == "made"
    assert await keys.find([OLD, NEW, OTHER]) == {OTHER: ApiKey("phone", frozenset({"admin"}))}
    assert [record.revoked_at is None for record in await keys.all()] == [True, False, False]


async def test_what_was_never_there_is_not_rotated(keys: ApiKeys) -> None:
    """A name with a slip of the finger would be a new key that nobody expects."""
    assert await make(keys, "phnoe", NEW, "chat", rotate=True) == "unknown"
    assert await keys.all() == []


async def test_a_key_whose_answer_got_lost_is_made_once(keys: ApiKeys) -> None:
    """The statement is sent again when the connection broke; the secret on the screen must be the one that counts."""
    id = new_id()
    assert [await make(keys, "phone", NEW, "chat", id=id) for _ in range(2)] == ["made", "made"]
    rotated = new_id()
    assert [await make(keys, "phone", OLD, rotate=True, id=rotated) for _ in range(2)] == ["made", "made"]
    assert len(await keys.all()) == 2


async def test_of_many_makers_of_one_name_one_has_it(keys: ApiKeys) -> None:
    """Two operators, one name."""
    made = await asyncio.gather(*(make(keys, "phone", hash_of(bytes([each])), "chat") for each in range(8)))
    assert sorted(made) == ["made", *["taken"] * 7]


async def test_the_list_tells_when_a_key_was_used(keys: ApiKeys) -> None:
    """What nobody uses can be revoked without asking around."""
    await make(keys, "desk", OTHER, "chat")
    await make(keys, "phone", OLD, "chat")
    await asyncio.gather(*(keys.find([OLD]) for _ in range(4)))
    used = {record.name: record.last_used_at for record in await keys.all()}
    assert used["desk"] is None
    assert used["phone"] is not None
