"""What is thrown away, counted and compared in a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from shared.adapters.postgres.backlog import PostgresBacklog
from shared.adapters.postgres.figures import PostgresFigures
from shared.adapters.postgres.files import PostgresFiles
from shared.adapters.postgres.leadership import PostgresLeadership
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.records import PostgresRecords
from shared.adapters.postgres.upkeep import PostgresUpkeep
from shared.domain.run import Claim
from shared.errors import TryLater
from shared.ports.backlog import SessionLine, Watermark
from shared.ports.files import Chunk, KnownFile
from tests.builders import ending, final_write, results, said, write
from tests.contract.test_children_contract import asking, spawn, the_child, wait_for_children, with_spawns_open
from tests.runs_worlds import PostgresWorld

DAY = timedelta(days=1)
CONVERSATION = "insert into conversations (key, channel, principal, contact) values ('cli', 'cli', 'me', 'me')"
RUN = """
insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, deadline_at,
                  finished_at, published_at, outcome)
values (%s, 'cli', %s, 'message', %s, 'cli', 'full', 'me', 'me', '{}', now(), %s, %s, '{}')
"""


def aged_id(age: timedelta) -> UUID:
    """A UUIDv7 of that age."""
    milliseconds = int((datetime.now(UTC) - age).timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0x2 << 62 | uuid4().int & ((1 << 62) - 1))


@pytest.fixture
async def leadership(database_url: str) -> AsyncIterator[PostgresLeadership]:
    opened = PostgresLeadership(database_url)
    yield opened
    await opened.close()


async def test_only_old_ended_told_runs_without_a_key_are_forgotten(database: Database) -> None:
    """A run that somebody may still ask for, or that nobody was told of, is kept."""
    await database.rows(CONVERSATION)
    then = datetime.now(UTC) - 10 * DAY
    old, keyed, untold, opened, young = aged_id(10 * DAY), *(aged_id(10 * DAY) for _ in range(3)), aged_id(DAY)
    for ordinal, (run, state, finished, told) in enumerate(
        [
            (old, "done", then, then),
            (keyed, "done", then, then),
            (untold, "failed", then, None),
            (opened, "waiting", None, None),
            (young, "done", datetime.now(UTC), datetime.now(UTC)),
        ]
    ):
        await database.rows(RUN, (run, ordinal, state, finished, told))
    await database.rows(
        "insert into effects (run, step, call_index, call_id, tool, class, args_hash, state, epoch)"
        " values (%s, 1, 0, 'c', 'read', 'read', '\\x00', 'done', 1)",
        (old,),
    )
    await database.rows("insert into idempotency values ('s', 'k', '\\x00', %s, now() + interval '1 day')", (keyed,))
    assert await PostgresUpkeep(database).forget_runs(older_than=5 * DAY, limit=1000) == 1
    left = {row[0] for row in await database.rows("select id from runs")}
    assert left == {keyed, untold, opened, young}
    assert await database.value("select count(*) from effects") == 0


async def forgotten(database: Database) -> int:
    """How many runs go when nothing is kept longer than it must be."""
    await database.rows("update runs set published_at = now() where finished_at is not null")
    return await PostgresUpkeep(database).forget_runs(older_than=timedelta(0), limit=1000)


async def sub_agents(database: Database) -> tuple[PostgresWorld, Claim, Claim, Claim]:
    """A run that waits for its sub-agent, which waits for one of its own."""
    world = PostgresWorld(database)
    world.me = await world.hire()
    root = await with_spawns_open(world)
    child = await asking(world, await the_child(world, await spawn(world, root)))
    grandchild = await the_child(world, await spawn(world, child))
    for waits in (root, child):
        await wait_for_children(world, waits)
    return world, root, child, grandchild


async def test_sub_agents_go_behind_their_root_with_all_they_said(database: Database) -> None:
    """Nobody reads their conversations then; while a run may wait for their ends, or count their money, they stay."""
    world, root, child, grandchild = await sub_agents(database)
    upkeep = PostgresUpkeep(database)
    await world.store(grandchild, final_write(grandchild, "so it is"))
    assert await forgotten(database) == 0
    for waits in (child, root):
        await world.children.collect(waits.run)
        claim = await world.claim(waits.conversation)
        await world.store(claim, write(claim, messages=[results(("c0", "x"))], step=2, stage="model"))
        await world.store(claim, write(claim, messages=[said("well")], ending=ending(claim)))
        assert await forgotten(database) == (1 if waits is root else 0)
    assert await upkeep.forget_children(older_than=timedelta(0), limit=10) == 0
    assert [await forgotten(database) for _ in range(3)] == [1, 1, 0]
    assert await upkeep.forget_children(older_than=DAY, limit=10) == 0
    assert await upkeep.forget_children(older_than=timedelta(0), limit=10) == 2
    assert await database.rows("select key from conversations") == [(root.conversation,)]
    assert await database.rows("select distinct session from messages") == [(root.session.id,)]
    assert await database.value("select count(*) from costs where run = %s", (grandchild.run,)) == 1


async def test_a_run_stays_until_its_sub_agents_have_heard_of_its_end(database: Database) -> None:
    """Else nobody would ever tell them, and they would work on for nobody."""
    world, root, *_ = await sub_agents(database)
    await world.inbox.cancel(root.run, reason="enough")
    assert await forgotten(database) == 0
    await world.fence()
    for _ in range(3):
        await world.children.mind(limit=10)
    assert [await forgotten(database) for _ in range(4)] == [1, 1, 1, 0]


async def test_what_was_sent_or_dropped_long_ago_is_forgotten_and_what_was_given_up_is_not(database: Database) -> None:
    """The reply stands in the messages; a dead letter waits for somebody to decide, however long."""
    upkeep = PostgresUpkeep(database)
    await database.rows(CONVERSATION)
    run = aged_id(10 * DAY)
    await database.rows(RUN, (run, 1, "done", datetime.now(UTC), datetime.now(UTC)))
    states = ("pending", "sending", "sent", "in_doubt", "failed", "dropped")
    for number, state in enumerate(states):
        await database.rows(
            "insert into deliveries (run, conversation, channel, ordinal, part, body, state, created_at)"
            " values (%s, 'cli', 'telegram', 1, %s, '{}', %s, now() - interval '9 days')",
            (run, number, state),
        )
    await database.rows(
        "insert into deliveries (run, conversation, channel, ordinal, part, body, state, created_at, sent_at)"
        " values (%s, 'cli', 'telegram', 1, 99, '{}', 'sent', now() - interval '9 days', now())",
        (run,),
    )
    for state in ("pending", "sending", "sent", "dead", "dropped"):
        await database.rows(
            "insert into webhooks (run, target, body, state, created_at)"
            " values (%s, 'callback', '{}', %s, now() - interval '9 days')",
            (run, state),
        )
    assert [await upkeep.forget_deliveries(older_than=8 * DAY, limit=1) for _ in range(3)] == [1, 1, 0]
    assert await upkeep.forget_webhooks(older_than=8 * DAY, limit=10) == 2
    kept = await database.rows("select state from deliveries order by part")
    assert [row[0] for row in kept] == ["pending", "sending", "in_doubt", "failed", "sent"]
    assert {row[0] for row in await database.rows("select state from webhooks")} == {"pending", "sending", "dead"}


async def test_what_is_revived_while_it_is_thrown_away_stays(database: Database, database_url: str) -> None:
    """`lucyd dead retry` says that it goes out; it must not be swept away in the same moment."""
    upkeep = PostgresUpkeep(database)
    await database.rows(CONVERSATION)
    given_up = uuid4()
    await database.rows(
        "insert into deliveries (id, conversation, channel, ordinal, part, kind, body, state, created_at)"
        " values (%s, 'cli', 'telegram', 1, 0, 'notice', '{}', 'failed', now() - interval '40 days')",
        (given_up,),
    )
    async with await psycopg.AsyncConnection.connect(database_url) as operator:
        await operator.execute("select lucyd_revive('delivery', %s)", [given_up])
        forgetting = asyncio.create_task(upkeep.forget_sentences(older_than=30 * DAY, limit=1000))
        await asyncio.sleep(0.5)
        await operator.commit()
    assert await forgetting == 0
    assert await database.value("select state from deliveries") == "pending"


async def test_expired_keys_old_events_and_dead_workers_go_in_batches(database: Database) -> None:
    """Disk stays flat."""
    upkeep = PostgresUpkeep(database)
    await database.rows(
        "insert into idempotency select 's', n::text, '\\x00', gen_random_uuid(), now() + n * interval '1 hour'"
        " from generate_series(-2, 1) n"
    )
    assert [await upkeep.forget_keys(limit=2) for _ in range(3)] == [2, 1, 0]
    assert await database.value("select count(*) from idempotency") == 1
    await database.rows("insert into events (at, type) values (now() - interval '9 days', 'x'), (now(), 'x')")
    assert await upkeep.forget_events(older_than=8 * DAY, limit=10) == 1
    await database.rows(
        "insert into deliveries (conversation, channel, ordinal, part, kind, body, state, created_at)"
        " select 'c', 'telegram', 0, n, 'notice', '{}', s, now() - a * interval '1 day'"
        " from (values (1, 'sent', 9), (2, 'pending', 9), (3, 'sent', 0)) v (n, s, a)"
    )
    assert await upkeep.forget_sentences(older_than=8 * DAY, limit=10) == 1
    await database.rows(
        "insert into workers (id, service, host, boot_id, pid, pid_started, version, state, ended_at)"
        " select gen_random_uuid(), 'agent_worker', 'h', 'b', 1, '1', '1', s, now() - a * interval '1 day'"
        " from (values ('stopped', 3), ('fenced', 2), ('stopped', 0), ('alive', null)) v (s, a)"
    )
    await database.rows(CONVERSATION)
    await database.rows("update conversations set owner = (select id from workers where state = 'fenced')")
    assert await upkeep.forget_workers(ended_for=DAY, limit=10) == 1
    assert await database.value("select count(*) from workers") == 3


async def test_what_a_run_has_told_is_kept_for_a_while_after_its_end(database: Database) -> None:
    """Its stream can be resumed until then; that of a run that waits for a person, as long as it waits."""
    await database.rows(CONVERSATION)
    then = datetime.now(UTC) - 2 * DAY
    old, late, waiting = (aged_id(2 * DAY) for _ in range(3))
    for ordinal, (run, state, finished) in enumerate(
        [(old, "done", then), (late, "done", datetime.now(UTC)), (waiting, "waiting", None)]
    ):
        await database.rows(RUN, (run, ordinal, state, finished, finished))
        await database.rows(
            "insert into run_steps (run, step, epoch, events, stored_at) select %s, n, 1, '[]', %s"
            " from generate_series(0, 2) n",
            (run, then),
        )
    upkeep = PostgresUpkeep(database)
    assert [await upkeep.forget_steps(ended_for=DAY, limit=2) for _ in range(2)] == [2, 1]
    left = {row[0] for row in await database.rows("select distinct run from run_steps")}
    assert left == {late, waiting}


RESERVATION = """
insert into reservations (call_id, worker, run, epoch, conversation, principal, model, worst_case, currency, made_at,
                          settled_at)
values (%s, %s, gen_random_uuid(), 1, 'cli', 'me', 'm', 2, 'USD', now() - %s, now() - %s::interval)
"""
COST = """
insert into costs (call_id, at, call_type, provider, model, principal, input_tokens, output_tokens, cache_read_tokens,
                   cache_write_tokens, rate_input, rate_output, rate_cache_read, rate_cache_write, cost, currency)
values (%s, now() - %s, 'agentic', '', 'm', 'me', 0, 0, 0, 0, 0, 0, 0, 0, 1, 'USD')
"""
WORKER = """
insert into workers (id, service, host, boot_id, pid, pid_started, version, state)
values (%s, 'agent_worker', 'h', 'b', 1, '1', '1', %s)
"""


async def test_only_old_reservations_that_were_booked_are_forgotten(database: Database) -> None:
    """They grow with every call; but one that is open, or has no row of costs, may yet be asked about."""
    booked, unbooked, opened = (aged_id(8 * DAY) for _ in range(3))
    lately, young = aged_id(8 * DAY), aged_id(6 * DAY)
    for call_id, settled in ((booked, 8), (unbooked, 8), (opened, None), (lately, 6), (young, 6)):
        ago = None if settled is None else settled * DAY
        await database.rows(RESERVATION, (call_id, uuid4(), 8 * DAY, ago))
        if call_id not in (unbooked, opened):
            await database.rows(COST, (call_id, 8 * DAY))
    upkeep = PostgresUpkeep(database)
    assert await upkeep.forget_reservations(older_than=7 * DAY, limit=10) == 1
    assert {row[0] for row in await database.rows("select call_id from reservations")} == {
        unbooked,
        opened,
        lately,
        young,
    }
    assert await database.value("select count(*) from costs") == 3


async def test_costs_are_forgotten_after_their_months(database: Database) -> None:
    """Whole months of the calendar, not so many days."""
    for days in (100, 93, 85, 0):
        await database.rows(COST, (uuid4(), days * DAY))
    upkeep = PostgresUpkeep(database)
    assert [await upkeep.forget_costs(months=3, limit=1) for _ in range(3)] == [1, 1, 0]
    assert await database.value("select count(*) from costs") == 2


async def test_calls_that_a_dead_worker_left_open_are_booked(database: Database) -> None:
    """A write that was under way while its worker was fenced may have reserved one more call."""
    dead, alive, forgotten = uuid4(), uuid4(), uuid4()
    await database.rows(WORKER, (dead, "fenced"))
    await database.rows(WORKER, (alive, "alive"))
    calls = {worker: aged_id(DAY) for worker in (dead, alive, forgotten)}
    for worker, call_id in calls.items():
        await database.rows(RESERVATION, (call_id, worker, DAY, None))
    fresh = aged_id(timedelta(0))
    await database.rows(RESERVATION, (fresh, dead, timedelta(0), None))
    upkeep = PostgresUpkeep(database)
    assert [await upkeep.book_left_open(limit=2) for _ in range(2)] == [2, 0]
    assert {row[0] for row in await database.rows("select call_id from costs where estimated and cost = 2")} == {
        calls[dead],
        calls[forgotten],
    }
    still = await database.rows("select call_id from reservations where settled_at is null")
    assert {row[0] for row in still} == {calls[alive], fresh}


async def test_the_backlog_counts_what_a_model_would_read(database: Database) -> None:
    """Dropped rows and compacted ones do not count; the summary does. What a sub-agent says, it says to its run."""
    await database.rows(CONVERSATION)
    await database.rows(CONVERSATION.replace("'cli', 'cli'", "'system:sub:1:1:0', 'system'"))
    fresh, compacted, small, asked = uuid4(), uuid4(), uuid4(), uuid4()
    opened = (
        "insert into sessions (id, conversation, contact, last_ordinal, live_from, summary, compaction_count,"
        " closed_at) values (%s, 'cli', 'me', %s, %s, %s, %s, now())"
    )
    await database.rows(opened, (fresh, 6, 1, None, 0))
    await database.rows(opened, (compacted, 12, 9, "what was said", 1))
    await database.rows(opened, (small, 2, 1, None, 0))
    await database.rows(opened.replace("'cli'", "'system:sub:1:1:0'"), (asked, 6, 1, None, 0))
    for session, rows in ((fresh, 6), (compacted, 12), (small, 2), (asked, 6)):
        await database.rows(
            "insert into messages (session, ordinal, run, role, body, dropped)"
            " select %s, n, gen_random_uuid(), 'user', '{}', n = 2 from generate_series(1, %s) n",
            (session, rows),
        )
    await database.rows("insert into consolidation_state values (%s, 0, 11, now())", (compacted,))
    lines = await PostgresBacklog(database).lines(at_least=4, limit=10)
    assert {line.session: line for line in lines} == {
        fresh: SessionLine(fresh, 0, 5, None),
        compacted: SessionLine(compacted, 1, 5, Watermark(0, 11)),
    }
    await database.rows("insert into consolidation_state values (%s, 0, 5, now())", (fresh,))
    assert [line.session for line in await PostgresBacklog(database).lines(at_least=4, limit=10)] == [compacted]


async def test_figures_are_counted_and_statistics_refreshed(database: Database) -> None:
    """The nightly upkeep works on an empty store too."""
    figures = PostgresFigures(database)
    assert "messages" in await figures.analyze()
    empty = {"sessions": {"open": 0, "closed": 0}, "messages": 0, "runs": {}, "costs": 0, "files": 0}
    assert await figures.counts() == empty


async def test_files_are_put_replaced_and_removed(database: Database) -> None:
    """Also many at once."""
    files = PostgresFiles(database)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    await database.rows(
        "insert into files (path, hash, size, mtime, chunking)"
        " select 'memory/' || n || '.md', 'a', 1, now(), 'one' from generate_series(0, 1200) n"
    )
    chunks = [Chunk("i", 1, 2, "a\0b\n\U0001f600"), Chunk("j", 2, 2, "\U0001f600")]
    await files.put(KnownFile("memory/0.md", "b", 2, at), chunks, chunking="two")
    await files.put(KnownFile("memory/0.md", "c", 3, at), chunks[1:], chunking="two")
    await files.put(KnownFile("memory/empty.md", "e", 0, at), [], chunking="two")
    await files.remove([f"memory/{number}.md" for number in range(1, 1200)])
    known = await files.hashes(chunking="two")
    assert known == {"memory/0.md": "c", "memory/empty.md": "e", "memory/1200.md": ""}
    assert await database.rows("select path, start_line, end_line, id, text from chunks") == [
        ("memory/0.md", 2, 2, "j", "\U0001f600")
    ]
    told = await PostgresRecords(database).files()
    assert (told.count, told.chunks) == (3, 1)
    await files.remove(["memory/0.md"])
    assert await database.value("select count(*) from chunks") == 0


async def test_one_leads_and_the_next_may_when_it_ends(leadership: PostgresLeadership, database_url: str) -> None:
    """The lock is given back with the block."""
    rival = PostgresLeadership(database_url)
    async with leadership.term() as term:
        assert term is not None
        async with rival.term() as other:
            assert other is None
    async with rival.term() as other:
        assert other is not None
    await rival.close()


async def test_a_lock_that_is_gone_is_noticed(leadership: PostgresLeadership, database: Database) -> None:
    """Whoever cut the connection may have given the lock to another by now."""
    async with leadership.term() as term:
        assert term is not None
        await database.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'lucyd leadership' and datname = current_database()"
        )
        async with asyncio.timeout(5):
            await term.lost()


async def test_a_postgres_that_is_not_there_is_said() -> None:
    """Who can't ask does not lead."""
    with pytest.raises(TryLater):
        async with PostgresLeadership("postgresql://nobody@127.0.0.1:1/none").term():
            pass
