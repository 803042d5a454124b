"""What the sweep finds, asked of the fake and of Postgres."""

from dataclasses import replace
from datetime import timedelta

from shared.ids import new_id
from tests.builders import (
    CONVERSATION,
    address,
    final_write,
    new_run,
)
from tests.runs_worlds import NO_TIME, World, with_question


async def test_orphans_are_what_nobody_living_owns(world: World) -> None:
    """A lost wake-up is healed from here."""
    await world.accept(new_run(conversation="a"))
    await world.accept(new_run(conversation="b"))
    await world.accept(new_run(conversation="c"))
    await world.claim("b")
    claim = await world.claim("c")
    await world.wait(0.01)
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9)) == ["a"]
    assert list(await world.runs.orphans(older_than=timedelta(minutes=1), limit=9)) == []

    await world.fence()
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9)) == ["a", "b", "c"]
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=2)) == ["a", "b"]
    heir = await world.hire()
    taken = await world.claim("c", worker=heir)
    assert taken.run == claim.run
    await world.store(taken, final_write(taken), worker=heir)
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9)) == ["a", "b"]


async def test_a_line_behind_a_run_that_waits_is_no_orphan(world: World) -> None:
    """People may leave many questions open for a day; looking at them each second would hide what is really lost."""
    claim = await with_question(world)
    await world.accept(new_run("later", sender="bert"))
    await world.wait(0.01)
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9)) == []
    await world.inbox.cancel(claim.run, reason="x")

    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9)) == [CONVERSATION]


async def test_a_worker_finds_what_it_owns_and_has_forgotten(world: World) -> None:
    """A worker that gave up on a step while Postgres was away is still its owner."""
    await world.accept(new_run(conversation="a"))
    await world.accept(new_run(conversation="b"))
    await world.claim("a")
    await world.claim("b")
    await world.wait(0.01)

    found = await world.runs.orphans(older_than=NO_TIME, limit=9, worker=world.me, in_hand=["b"])
    assert list(found) == ["a"]
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9, worker=new_id())) == []


async def test_a_claim_that_was_overtaken_is_known(world: World) -> None:
    """A reset raises the epoch; the worker that holds the old one must hear of it without writing."""
    await world.accept(new_run(conversation="a"))
    await world.accept(new_run(conversation="b"))
    first, second = await world.claim("a"), await world.claim("b")
    held = {"a": first.epoch, "b": second.epoch, "unknown": 1}
    assert list(await world.runs.overtaken(held, worker=world.me)) == []
    await world.inbox.reset("a", new_id(), source="http", sender="x")
    assert list(await world.runs.overtaken(held, worker=world.me)) == ["a"]


async def test_ends_that_were_not_told_are_found_until_they_are(world: World) -> None:
    """A worker may die between the commit and Redis."""
    runs = []
    for conversation in ("a", "b"):
        await world.accept(new_run(conversation=conversation))
        claim = await world.claim(conversation)
        await world.store(claim, final_write(claim))
        runs.append(claim.run)
        await world.wait(0.01)
    assert list(await world.runs.unpublished(older_than=timedelta(minutes=1), limit=9)) == []
    assert [ended.run for ended in await world.runs.unpublished(older_than=NO_TIME, limit=9)] == runs
    assert [ended.run for ended in await world.runs.unpublished(older_than=NO_TIME, limit=1)] == runs[:1]

    await world.runs.published(runs[:1], told_within=NO_TIME)
    (left,) = await world.runs.unpublished(older_than=NO_TIME, limit=9)
    assert (left.run, left.outcome["reply"]) == (runs[1], "hi")
    assert await world.runs.tell_again(ended_within=NO_TIME) == 0
    await world.wait(0.01)
    assert await world.runs.tell_again(ended_within=timedelta(hours=1)) == 1  # the other was not told yet
    assert [ended.run for ended in await world.runs.unpublished(older_than=NO_TIME, limit=9)] == runs


async def test_what_was_told_before_everything_was_told_again_does_not_count(world: World) -> None:
    """It was told to a Redis that was emptied since; noted as told, it would be missing there for ever."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    await world.runs.tell_again(ended_within=timedelta(hours=1))
    await world.runs.published([claim.run], told_within=timedelta(seconds=5))
    await world.wait(0.01)
    assert [ended.run for ended in await world.runs.unpublished(older_than=NO_TIME, limit=9)] == [claim.run]

    await world.runs.published([claim.run], told_within=NO_TIME)
    assert list(await world.runs.unpublished(older_than=NO_TIME, limit=9)) == []


async def test_what_a_full_principal_has_waiting_hides_nobody_elses(world: World) -> None:
    """A worker that has no room for a flood must still find the one message of somebody else that stands behind it."""
    for name, principal in (("a", "key:flood"), ("b", "key:flood"), ("c", "key:quiet")):
        await world.accept(new_run(address=replace(address(name), principal=principal)))
    await world.wait(0.01)

    assert list(await world.runs.orphans(older_than=NO_TIME, limit=1, full=["key:flood"])) == ["c"]
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9, full=["key:flood", "key:quiet"])) == []
    whose = {"a": "key:flood", "c": "key:quiet"}
    assert await world.runs.principals(["a", "c", "unknown"]) == whose
