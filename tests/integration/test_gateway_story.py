"""The story of a run, over HTTP and out of the rows that the transactions write."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from shared.adapters.postgres.pool import Database
from shared.domain.run import Address, EffectResult, Intent
from shared.ids import new_id
from tests.builders import call, final_write, key, new_run, reservation, results, said, settlement, write
from tests.runs_worlds import PostgresWorld
from tests.stack import Stack, async_client, open_stack

ADDRESS = Address("http:default:ada", "http", "key:default", "ada")
SECRET = "a private word"


@pytest.fixture
async def stack(tmp_path: Path, database_url: str, redis_url: str) -> AsyncIterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, "") as opened:
        yield opened


async def lived_through(database: Database) -> tuple[UUID, UUID, UUID]:
    """A run whose first worker died in the middle of its tools; the run, the dead worker, and its heir."""
    world = PostgresWorld(database)
    world.me = await world.hire()
    new = new_run(SECRET, address=ADDRESS, idempotency=key(), webhook="callback")
    await world.accept(new)
    first = await world.claim(ADDRESS.conversation)
    await world.store(
        first,
        write(
            first,
            messages=[said(SECRET, call("exec", "c1", command=SECRET))],
            settle=settlement(first),
            intents=[Intent(0, "c1", "exec", "once", "ab" * 32)],
            step=1,
            stage="tools",
        ),
    )
    dead = world.me
    await world.fence()
    world.me = await world.hire()
    second = await world.claim(ADDRESS.conversation)
    doubt = EffectResult(0, "in_doubt", {"content": SECRET})
    await world.store(
        second,
        write(
            second, messages=[results(("c1", SECRET))], results=[doubt], reserve=reservation(), step=2, stage="model"
        ),
    )
    await world.store(second, final_write(second, SECRET))
    return new.id, dead, world.me


async def test_the_story_of_a_run_whose_worker_died(stack: Stack, database: Database) -> None:
    """Everything that happened, in its order; nothing of what was said."""
    run, dead, heir = await lived_through(database)
    gateway = stack.gateway()
    async with async_client(gateway) as http:
        reply = await http.get(f"/api/v1/runs/{run}/story")
        assert reply.status_code == 200, reply.text
        assert SECRET not in reply.text
        told = reply.json()
        assert (told["run_id"], told["state"], told["attempts"]) == (str(run), "done", 2)
        line = told["story"]
        whats = [entry["what"] for entry in line]
        assert whats[0] == "accepted"
        assert line[0]["idempotency_scope"] == "key:/api/v1/chat"
        claims = [(entry["worker"], entry["attempt"]) for entry in line if entry["what"] == "claimed"]
        assert claims == [(str(dead), 1), (str(heir), 2)]
        assert [entry["worker"] for entry in line if entry["what"] == "worker_fenced"] == [str(dead)]
        assert [entry["level"] for entry in line if entry["what"] == "suspected"] == [1]
        assert [(entry["tool"], entry["state"]) for entry in line if entry["what"] == "tool_ended"] == [
            ("exec", "in_doubt")
        ]
        assert next(entry for entry in line if entry["what"] == "webhook")["state"] == "pending"
        assert next(entry for entry in line if entry["what"] == "ended")["state"] == "done"
        assert whats.index("suspected") < whats.index("ended")
        assert all(entry["after_seconds"] >= 0 for entry in line)
        assert told["times"]["total_seconds"] >= told["times"]["for_a_worker_seconds"] >= 0
        (cost,) = told["costs"]
        assert cost["calls"] >= 2

        assert (await http.get(f"/api/v1/runs/{str(run)[:13]}/story")).json()["run_id"] == str(run)
        for unknown, status in ((new_id(), 404), ("0198", 400), ("nonsense", 400)):
            assert (await http.get(f"/api/v1/runs/{unknown}/story")).status_code == status


async def test_a_beginning_that_fits_several_runs_names_them(stack: Stack, database: Database) -> None:
    """And never those of another key."""
    world = PostgresWorld(database)
    mine = [new_run(address=ADDRESS) for _ in range(2)]
    theirs = new_run(address=Address("http:phone:bob", "http", "key:phone", "bob"))
    for new in (*mine, theirs):
        await world.accept(new)
    async with async_client(stack.gateway()) as http:
        reply = await http.get(f"/api/v1/runs/{str(mine[0].id)[:8]}/story")
        assert reply.status_code == 400
        assert all(str(new.id) in reply.json()["error"] for new in mine)
        assert str(theirs.id) not in reply.json()["error"]
        assert (await http.get(f"/api/v1/runs/{theirs.id}/story")).status_code == 404
