"""Attachments in Postgres: beside code of the release before, and when their time is over."""

import asyncio
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

from shared.adapters.postgres.blobs import PostgresBlobs
from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.runs import PostgresRuns
from shared.adapters.postgres.upkeep import PostgresUpkeep
from shared.domain.attachment import Attachment, blob_id
from shared.domain.run import Claim
from shared.ids import new_id
from tests.builders import CONVERSATION, final_write, new_run, results, write
from tests.runs_worlds import PostgresWorld, with_question, with_tools_open

CAT = Attachment("image/png", b"\x89PNG\r\n\x1a\n a cat", "cat.png")
OLD_CLAIM = """
select lucyd_claim_2(%s, %s, %s, %s, 2, '{"*": {"model": "primary", "worst_case": "1", "currency": "USD"}}'::jsonb,
                     null, null, null, true, false, '0')
"""
OLD_STORE = "select lucyd_store_2(%s, %s, %s, %s::jsonb)"
LONG = timedelta(days=30)


async def world_over(database: Database) -> PostgresWorld:
    """A store with one living worker."""
    world = PostgresWorld(database)
    world.me = await world.hire()
    return world


async def old_claim(database: Database, worker: UUID) -> Any:
    """A claim as code of the release before asks for it."""
    return await database.value(OLD_CLAIM, (worker, CONVERSATION, new_id(), new_id()))


async def test_old_code_leaves_messages_with_attachments_and_reads_the_words_of_earlier_ones(
    database: Database,
) -> None:
    """Old and new workers run side by side while a release goes out; only the new ones can show an image."""
    world = await world_over(database)
    await world.accept(new_run("look", attachments=[CAT]))
    assert (await old_claim(database, world.me))["status"] == "nothing"
    claim = await world.claim()
    await world.store(claim, final_write(claim))

    await world.accept(new_run("thanks"))
    claimed = await old_claim(database, world.me)
    assert claimed["status"] == "claimed"
    blocks = claimed["messages"][0][2]["content"]
    assert all(isinstance(block["text"], str) for block in blocks)  # which it takes for text, whatever the type


async def test_old_code_does_not_take_a_steering_attachment_in(database: Database) -> None:
    """It would be told of the image and not see it; a worker that does answers it afterwards."""
    world = await world_over(database)
    claim: Claim = await with_tools_open(world)
    await world.accept(new_run("plain", when_busy="steer"))
    new = new_run("rather this", attachments=[CAT], when_busy="steer")
    await world.accept(new)
    message = results(("c1", "ok"), ("c2", "ok"))
    old = {"id": new_id(), "run": claim.run, "messages": [message], "step": 2, "stage": "model", "absorb": True}
    stored = await database.value(OLD_STORE, (world.me, CONVERSATION, claim.epoch, to_json(old)))
    assert [each["content"] for each in stored["absorbed"]] == ["plain"]

    round_ = write(claim, messages=[results()], step=3, stage="model", absorb=True)
    (taken,) = (await world.written(claim, round_)).absorbed
    assert taken["role"] == "user"
    assert len(taken["content"]) == 2


async def test_old_code_does_not_go_on_with_a_run_that_was_answered_with_an_attachment(database: Database) -> None:
    """It would never show what came with the answer."""
    world = await world_over(database)
    await with_question(world)
    await world.accept(new_run("yes", attachments=[CAT]))
    assert (await old_claim(database, world.me))["status"] == "nothing"
    assert (await world.claim()).approvals[0].state == "allowed"


async def test_attachments_go_when_their_time_is_over_and_the_conversation_goes_on(database: Database) -> None:
    """They are the largest thing that is kept; what was said of them stays."""
    world, upkeep, blobs = await world_over(database), PostgresUpkeep(database), PostgresBlobs(database)
    old, young, open_ = (new_run("look", attachments=[CAT, CAT]) for _ in range(3))
    for new in (old, young):
        await world.accept(new)
        claim = await world.claim()
        await world.store(claim, final_write(claim))
    await world.accept(open_)
    past = "update runs set finished_at = finished_at - interval '31 days' where id = %s"
    await database.rows(past, (old.id,))
    await database.rows("update blobs set created_at = created_at - interval '31 days' where run <> %s", (young.id,))

    assert await upkeep.forget_blobs(older_than=LONG, limit=1) == 1
    assert await upkeep.forget_blobs(older_than=LONG, limit=50) == 1
    assert await upkeep.forget_blobs(older_than=LONG, limit=50) == 0
    ids = [blob_id(new.id, position) for new in (old, young, open_) for position in (0, 1)]
    assert set(await blobs.load(ids)) == set(ids[2:])
    claim = await world.claim()
    assert [stored.body["role"] for stored in claim.messages] == ["user", "assistant", "user", "assistant", "user"]


async def test_a_run_that_is_forgotten_leaves_nothing_of_its_attachments(database: Database) -> None:
    """Nor is it forgotten before them: thousands of megabytes would not go in one statement."""
    world, upkeep = await world_over(database), PostgresUpkeep(database)
    new = new_run("look", attachments=[CAT])
    await world.accept(new)
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    runs: PostgresRuns = PostgresRuns(database)
    await runs.published([new.id], told_within=timedelta(hours=1))
    later = timedelta(seconds=-5)  # as if five seconds had passed

    assert await upkeep.forget_runs(older_than=later, limit=10) == 0
    assert await upkeep.forget_blobs(older_than=later, limit=10) == 1
    assert await upkeep.forget_runs(older_than=later, limit=10) == 1
    assert await database.rows("select 1 from blobs") == []
    assert await database.rows("select 1 from runs") == []


HELD_UP = 0.35
"""Seconds of this thread's own work without a pause. As text these bytes took twice as many, and a fifth as bytes."""


async def test_a_large_attachment_holds_nobody_up_while_it_is_stored(database: Database) -> None:
    """Everybody else of the process waits for whatever one message does without a pause."""
    world = await world_over(database)
    large = Attachment("image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 80_000)
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()  # of ours: what others do on this machine is not counted
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    new = new_run("look", attachments=[large])
    await world.accept(new)
    await asyncio.sleep(0.01)
    ticking.cancel()
    assert await PostgresBlobs(database).load([blob_id(new.id, 0)]) == {blob_id(new.id, 0): large.data}
    assert longest < HELD_UP
