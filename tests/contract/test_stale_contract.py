"""Whoever has lost a claim changes nothing; asked of the fake and of Postgres."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from shared.domain.run import Claim, EffectResult, Intent, Told, Write
from shared.errors import LostClaim
from shared.ids import new_id
from tests.builders import (
    CONVERSATION,
    ending,
    new_run,
    reservation,
    results,
    said,
    settlement,
    waiting,
    write,
)
from tests.runs_worlds import NO_TIME, World, with_tools_open


def _writes(claim: Claim) -> Sequence[Write]:
    intent = Intent(1, "c2", "write", "once", "cd" * 32)
    done = EffectResult(0, "done", {"tool_use_id": "c1", "content": "late"})
    return [
        write(claim, messages=[said("late")], step=9, stage="model", keep="9-9"),
        write(claim, intents=[intent]),
        write(claim, messages=[results(("c1", "late"))], results=[done]),
        write(claim, reserve=reservation()),
        write(claim, told=Told(1, [(7, "delta", {"text": "late"})])),
        write(claim, absorb=True),
        write(claim, unbegun=True),
        write(claim, waiting=waiting(parts=["May I?"])),
        write(claim, messages=[said("late")], ending=ending(claim, "late", compact=new_id(), parts=["late"])),
        write(claim, ending=ending(claim, "late", state="failed", drop=True)),
    ]


@pytest.mark.parametrize("how", ["handed on", "fenced", "cancelled", "reset", "another worker"])
async def test_a_claim_that_was_lost_writes_nothing_anywhere(world: World, how: str) -> None:
    """Not one row of one table, whatever it brings and however it was lost."""
    claim = await with_tools_open(world)
    await world.accept(new_run("not so", when_busy="steer"))
    worker = world.me
    match how:
        case "handed on":
            await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch)
            await world.claim(worker=await world.hire())
        case "fenced":
            await world.fence()
        case "cancelled":
            await world.inbox.cancel(claim.run, reason="x")
            await world.wait(0.01)
            await world.runs.cancel_overdue(older_than=NO_TIME, limit=9)
        case "reset":
            await world.inbox.reset(CONVERSATION, new_id(), source="cli", sender="anna")
        case _:
            worker = await world.hire()
    before = await world.everything()
    for late in _writes(claim):
        with pytest.raises(LostClaim):
            await world.store(claim, late, worker=worker)
    assert await world.runs.hand_back(CONVERSATION, worker=worker, epoch=claim.epoch, unbegun=True) is False

    assert await world.everything() == before


async def test_what_a_lost_claim_has_bought_is_booked_once_and_nothing_else(world: World) -> None:
    """By its call id, at what it cost, however often it is sent."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch)
    before = await world.everything()
    for cost in (Decimal(2), Decimal(3)):
        with pytest.raises(LostClaim):
            await world.store(claim, write(claim, messages=[said("late")], settle=settlement(claim, cost=cost)))
    await world.runs.settle(settlement(claim, cost=Decimal(4)))

    (booked,) = await world.booked()
    assert (booked.call_id, booked.cost, booked.estimated) == (claim.call_id, Decimal(2), False)
    assert await world.open_reservations() == set()
    after = await world.everything()
    assert {name for name in before if before[name] != after[name]} == {"costs", "reservations"}


async def test_a_guess_that_was_booked_stands(world: World) -> None:
    """A fence has booked the worst case; the true figure came too late to be counted twice."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.fence()
    with pytest.raises(LostClaim):
        await world.store(claim, write(claim, settle=settlement(claim)))

    (booked,) = await world.booked()
    assert booked.estimated


@pytest.mark.parametrize("what", ["step", "absorb", "told", "wait", "end"])
async def test_a_write_sent_twice_is_written_once(world: World, what: str) -> None:
    """The answer to a COMMIT may get lost; nothing of the second try may be left anywhere."""
    claim = await with_tools_open(world)
    await world.accept(new_run("not so", when_busy="steer"))
    done = EffectResult(0, "done", {"tool_use_id": "c1", "content": "x"})
    step: dict[str, Any] = {"messages": [results(("c1", "x"), ("c2", "y"))], "results": [done], "step": 2}
    fields: Mapping[str, dict[str, Any]] = {
        "step": {**step, "stage": "model", "reserve": reservation(), "keep": "1-9"},
        "absorb": {**step, "stage": "model", "absorb": True},
        "told": {"told": Told(1, [(7, "delta", {"text": "once"})])},
        "wait": {"waiting": waiting()},
        "end": {"settle": settlement(claim, new_id()), "ending": ending(claim, compact=new_id())},
    }
    once = write(claim, **fields[what])
    first = await world.written(claim, once)
    before = await world.everything()
    again = await world.written(claim, once)

    assert again == first
    assert await world.everything() == before


async def test_what_was_told_in_a_step_is_kept_under_its_epoch(world: World) -> None:
    """An heir tells the step anew; a client that heard the first one must be able to go on."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, write(claim, told=Told(0, [(1, "attempt", {"epoch": 1})])))
    await world.store(claim, write(claim, told=Told(0, [(5, "delta", {"text": "hell"})])))
    await world.store(claim, write(claim, step=1, stage="model", told=Told(1, [(9, "delta", {"text": "!"})])))
    await world.fence()
    heir = await world.hire()
    taken = await world.claim(worker=heir)
    await world.store(taken, write(taken, told=Told(1, [(8, "delta", {"text": "?"})])), worker=heir)

    assert list(await world.told(claim.run)) == [
        [[1, "attempt", {"epoch": 1}], [5, "delta", {"text": "hell"}]],
        [[9, "delta", {"text": "!"}]],
        [[8, "delta", {"text": "?"}]],
    ]
