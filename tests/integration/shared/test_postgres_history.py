"""What people read, out of a real Postgres."""

import pytest

from shared.adapters.postgres.history import PostgresHistory
from shared.adapters.postgres.pool import Database
from shared.domain.run import Address
from shared.ids import new_id
from tests.builders import final_write, new_run
from tests.runs_worlds import PostgresWorld

PRINCIPAL = "key:phone"


async def _talk(database: Database, *addresses: Address) -> PostgresWorld:
    """One answered message in each conversation."""
    world = PostgresWorld(database)
    world.me = await world.hire()
    for address in addresses:
        await world.accept(new_run(address=address))
        claim = await world.claim(address.conversation)
        await world.store(claim, final_write(claim))
    return world


async def test_a_long_session_shows_its_newest_rows_in_order(database: Database) -> None:
    """Who opens a history wants to know what was said last."""
    await _talk(database, Address("cli", "cli", PRINCIPAL, "cli"))
    session = await database.value("select id from sessions")
    await database.rows(
        "insert into messages (session, ordinal, run, role, body)"
        " select %s, n, %s, 'user', jsonb_build_object('role', 'user', 'content', n) from generate_series(3, 9) n",
        (session, new_id()),
    )
    rows = await PostgresHistory(database).messages(session, principal=PRINCIPAL, limit=3)
    assert [row.body["content"] for row in rows] == [7, 8, 9]


@pytest.mark.parametrize("target", ["bob", "BOB", "http-bob", "HTTP-Bob", "http:phone:Bob", "http:phone:bob", "id"])
async def test_a_session_is_found_by_every_name_it_has(database: Database, target: str) -> None:
    """People type the name they know, in the case they like."""
    await _talk(
        database,
        Address("http:phone:Bob", "http", PRINCIPAL, "http-Bob"),
        Address("http:phone:bobby", "http", PRINCIPAL, "http-bobby"),
        Address("http:other:bob", "http", "key:other", "http-bob"),
    )
    if target == "id":
        found = await database.value("select id from sessions where conversation = 'http:phone:Bob'")
        target = str(found).upper()
    history = PostgresHistory(database)
    assert list(await history.session_contacts(target, principal=PRINCIPAL)) == ["http:phone:Bob"]
    assert list(await history.session_contacts("bo", principal=PRINCIPAL)) == []
