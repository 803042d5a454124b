"""Rows for people, out of a real Postgres: the right ones, and without a look at everybody else's."""

from collections.abc import Iterator
from typing import Any, get_args
from uuid import UUID

import psycopg
import pytest

from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.records import RUNS, RUNS_ENDED_OTHERWISE, RUNS_OF_SESSION, RUNS_OPEN, PostgresRecords
from shared.domain.run import RunState
from shared.ids import new_id
from shared.ports.records import Whose

MANY = 20_000
FEW_PAGES = 400
"""Of a table that has thousands."""

# Ids grow with their number, as they do with time.
RUNS_OF = """
insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, session,
                  deadline_at, finished_at, published_at)
select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, %(conversation)s, n, 'message', 'done', 'http',
       'full', %(principal)s, 'ada', '{"text": "hello"}', %(session)s, now(), now(), now()
from generate_series(%(first)s::integer, %(last)s::integer) n
"""


class Town:
    """Conversations of several principals, each with one session."""

    def __init__(self, database: psycopg.Connection) -> None:
        self.database = database
        self.sessions: dict[str, UUID] = {}

    def settle(self) -> None:
        """A few runs of its own has everybody, and one has thousands that are newer than most."""
        self.talk("key:default", 1, 3)
        self.talk("key:mine", 4, 60)
        self.talk("telegram:7", 61, 62)
        self.talk("key:theirs", 100, 100 + MANY)
        self.talk("key:default", 100_000, 100_001)
        self.database.execute("analyze runs")

    def talk(self, principal: str, first: int, last: int) -> None:
        conversation = f"of:{principal}"
        if principal not in self.sessions:
            self.sessions[principal] = new_id()
            self.database.execute(
                "insert into conversations (key, channel, principal, contact) values (%s, 'http', %s, 'ada')",
                (conversation, principal),
            )
            self.database.execute(
                "insert into sessions (id, conversation, contact) values (%s, %s, 'ada')",
                (self.sessions[principal], conversation),
            )
        its = {"conversation": conversation, "principal": principal, "session": self.sessions[principal]}
        self.database.execute(RUNS_OF, {**its, "first": first, "last": last})

    def pages_read(self, query: str, types: str, *values: object) -> int:
        """Pages that the statement reads by the plan that serves every value, as a prepared one comes to have it."""
        count = iter(range(1, 20))
        numbered = "".join(part if at == 0 else f"${next(count)}{part}" for at, part in enumerate(query.split("%s")))
        self.database.execute("set plan_cache_mode = force_generic_plan")
        self.database.execute(f"prepare asked ({types}) as {numbered.replace('%%', '%')}")
        places = ", ".join(["%s"] * len(values))
        with psycopg.ClientCursor(self.database) as cursor:
            cursor.execute(f"explain (analyze, buffers, format json) execute asked ({places})", values)
            ((told,),) = cursor.fetchall()
        self.database.execute("deallocate asked")
        plan: dict[str, Any] = told[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.fixture
def town(database_url: str) -> Iterator[Town]:
    with psycopg.connect(database_url, autocommit=True) as opened:
        town = Town(opened)
        town.settle()
        yield town


async def test_runs_are_the_newest_of_ones_own(town: Town, database: Database) -> None:
    """A key sees its own; the operator's also what came over no key, in one order."""
    records = PostgresRecords(database)
    mine = await records.runs(Whose("key:mine"), session=None, state=None, limit=50)
    assert [run.ordinal for run in mine] == list(range(60, 10, -1))
    house = await records.runs(Whose("key:default", keyless=True), session=None, state="done", limit=6)
    assert [run.ordinal for run in house] == [100_001, 100_000, 62, 61, 3, 2]
    none = [await records.runs(Whose(None), session=None, state=state, limit=50) for state in (None, "done")]
    assert none == [[], []]


async def test_runs_are_found_by_their_state(town: Town, database: Database) -> None:
    """Those that are open, and those that did not end well, however many did."""
    records, states = PostgresRecords(database), get_args(RunState)
    for ordinal, state in enumerate(states, start=4):
        town.database.execute("update runs set state = %s where ordinal = %s", (state, ordinal))
    for ordinal, state in enumerate(states, start=4):
        found = await records.runs(Whose("key:mine"), session=None, state=state, limit=60)
        assert [run.ordinal for run in found] == ([ordinal] if state != "done" else [*range(60, 11, -1), ordinal])
        others = await records.runs(Whose("key:default", keyless=True), session=None, state=state, limit=60)
        assert len(others) == (7 if state == "done" else 0)


async def test_runs_of_a_session_are_those_of_its_owner(town: Town, database: Database) -> None:
    """Whoever knows the id of another's session sees nothing of it."""
    records, session = PostgresRecords(database), town.sessions["key:theirs"]
    found = await records.runs(Whose("key:theirs"), session=session, state=None, limit=2)
    assert [run.ordinal for run in found] == [100 + MANY, 99 + MANY]
    assert await records.runs(Whose("key:mine"), session=session, state=None, limit=2) == []
    assert await records.runs(Whose("key:default", keyless=True), session=session, state=None, limit=2) == []
    by_telegram = town.sessions["telegram:7"]
    found = await records.runs(Whose("key:default", keyless=True), session=by_telegram, state=None, limit=5)
    assert [run.ordinal for run in found] == [62, 61]


def test_a_list_of_runs_costs_what_is_shown_and_not_what_is_stored(town: Town) -> None:
    """Others' runs, however many and however new, are not read to find one's own."""
    types = "text[], text, text, integer"
    assert town.pages_read(RUNS, types, ["key:mine"], None, None, 50) < FEW_PAGES
    assert town.pages_read(RUNS, types, ["key:default", ""], None, None, 50) < FEW_PAGES
    for state in ("failed", "cancelled", "merged", "dead"):
        assert town.pages_read(RUNS_ENDED_OTHERWISE, types, ["key:theirs"], state, state, 50) < FEW_PAGES
    assert town.pages_read(RUNS_OPEN, "text, text[], integer", "running", ["key:theirs"], 50) < FEW_PAGES
    types, session = "uuid, uuid, text[], text, text, integer", town.sessions["key:mine"]
    assert town.pages_read(RUNS_OF_SESSION, types, session, session, ["key:mine"], None, None, 50) < FEW_PAGES
