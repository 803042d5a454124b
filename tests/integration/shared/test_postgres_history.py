"""What people read, out of a real Postgres."""

from datetime import timedelta

import pytest

from shared.adapters.postgres.history import PostgresHistory
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.records import PostgresRecords
from shared.domain.run import Address
from shared.ids import new_id
from shared.ports.records import Whose
from tests.builders import final_write, new_run
from tests.contract.test_children_contract import spawn, the_child, with_spawns_open
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


async def test_sub_agents_at_work_are_no_sessions_of_people(database: Database) -> None:
    """A list of ten of them hides the one that somebody talks in; and nobody means them who closes what rests."""
    world = PostgresWorld(database)
    world.me = await world.hire()
    parent = await with_spawns_open(world)
    child = await the_child(world, await spawn(world, parent))
    history, records = PostgresHistory(database), PostgresRecords(database)
    assert [each.id for each in await history.sessions(principal=None)] == [parent.session.id]
    assert (await history.counts())["active_sessions"] == 1
    assert list(await history.session_contacts("sub-agent", principal=None)) == []
    assert await records.session_of("sub-agent", Whose(None)) is None
    for name in (str(child.session.id), child.conversation):
        assert list(await history.session_contacts(name, principal=None)) == [child.conversation]
    await world.store(child, final_write(child))
    await database.rows("update sessions set updated_at = now() - interval '1 day'")
    await database.rows("update runs set finished_at = now() - interval '1 day' where id = %s", (child.run,))
    assert list(await records.idle(Whose(None), longer_than=timedelta(hours=1), limit=10)) == []


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


async def test_a_name_means_whom_it_fits_best_and_nobody_where_that_can_not_be_told(database: Database) -> None:
    """A reset of one must not end what another has begun, and nobody reads somebody else's words by a capital."""
    await _talk(
        database,
        Address("http:phone:Zed", "http", PRINCIPAL, "http-Zed"),
        Address("http:phone:ZED", "http", PRINCIPAL, "http-ZED"),
        Address("http:phone:http-Zed", "http", PRINCIPAL, "http-http-Zed"),
    )
    history, records = PostgresHistory(database), PostgresRecords(database)
    for target, key in (("Zed", "http:phone:Zed"), ("http-Zed", "http:phone:Zed"), ("http-ZED", "http:phone:ZED")):
        assert list(await history.session_contacts(target, principal=PRINCIPAL)) == [key]
        meant = await database.value("select id from sessions where conversation = %s", (key,))
        assert await records.session_of(target, Whose(PRINCIPAL)) == meant
    for target in ("zed", "http-zed", "http:phone:zed"):
        assert list(await history.session_contacts(target, principal=PRINCIPAL)) == []
        assert await records.session_of(target, Whose(PRINCIPAL)) is None
    assert list(await history.session_contacts("http-HTTP-zed", principal=PRINCIPAL)) == ["http:phone:http-Zed"]


async def test_the_largest_session_is_a_persons(database: Database) -> None:
    """Machines are compacted when they need it; also those that came over a key of their own."""
    await _talk(
        database,
        Address("http:phone:Bob", "http", PRINCIPAL, "http-Bob"),
        Address("http:phone:system:automation", "http", PRINCIPAL, "system-automation"),
    )
    await database.rows("update sessions set context_tokens = 9 where contact = 'system-automation'")
    largest = await PostgresRecords(database).largest(Whose(PRINCIPAL))
    assert largest is not None
    assert largest.address.contact == "http-Bob"
