"""What a write stores, and what is given back, asked of the fake and of Postgres."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.domain.money import Usage
from shared.domain.run import EffectResult, Intent, Route, SessionAfter
from shared.errors import LostClaim
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from tests.builders import (
    CONVERSATION,
    ROUTE,
    bodies,
    call,
    ending,
    final_write,
    new_run,
    reservation,
    results,
    said,
    settlement,
    write,
)
from tests.runs_worlds import World, with_tools_open


async def test_messages_are_stored_in_order(world: World) -> None:
    """History is linear."""
    claim = await with_tools_open(world)
    done = results(("c1", "ok"), ("c2", "text"))
    await world.store(claim, write(claim, messages=[done], step=2, stage="model"))
    await world.store(claim, write(claim, messages=[said("done")], ending=ending(claim)))
    await world.accept(new_run("next"))
    following = await world.claim()

    assert [row.ordinal for row in following.messages] == [1, 2, 3, 4, 5]
    assert [body["role"] for body in bodies(following)] == ["user", "assistant", "tool_results", "assistant", "user"]
    assert bodies(following)[2] == done


async def test_the_same_write_is_stored_once(world: World) -> None:
    """Its answer may get lost in COMMIT; whoever sends it again must not double a row."""
    await world.accept(new_run())
    await world.accept(new_run("next"))
    claim = await world.claim()
    last = final_write(claim)
    assert await world.store(claim, last) is True
    assert await world.store(claim, last) is True
    following = await world.claim()

    assert [body["role"] for body in bodies(following)] == ["user", "assistant", "user"]
    assert len(await world.booked()) == 1


async def test_a_step_sent_again_after_a_peer_took_over_is_lost(world: World) -> None:
    """It was stored while the claim was good, but whoever goes on from it would act beside the heir."""
    await world.accept(new_run())
    claim = await world.claim()
    step = write(claim, messages=[said("a", call())], settle=settlement(claim), step=1, stage="tools")
    await world.store(claim, step)
    await world.fence()
    heir = await world.hire()
    taken = await world.claim(worker=heir)

    with pytest.raises(LostClaim):
        await world.store(claim, step)
    assert [booked.estimated for booked in await world.booked()] == [False]
    assert [body["role"] for body in bodies(taken)] == ["user", "assistant"]


async def test_what_was_bought_is_booked_though_the_claim_is_lost(world: World) -> None:
    """A stale call is billed too; nothing else of the write may be stored."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch)
    heir = await world.hire()
    taken = await world.claim(worker=heir)
    with pytest.raises(LostClaim):
        await world.store(claim, final_write(claim))

    (booked,) = await world.booked()
    assert (booked.call_id, booked.cost, booked.estimated) == (claim.call_id, settlement(claim).cost, False)
    await world.store(taken, final_write(taken, "mine"), worker=heir)
    await world.accept(new_run("next"))
    following = await world.claim(worker=heir)
    assert [body.get("text") for body in bodies(following) if body["role"] == "assistant"] == ["mine"]


@pytest.mark.parametrize("moved", ["fenced", "handed back", "claimed anew", "reset", "expired", "ended"])
async def test_a_claim_that_moved_on_writes_nothing(world: World, moved: str) -> None:
    """Fencing does not rest on good manners."""
    await world.accept(new_run(deadline=timedelta(milliseconds=60 if moved == "expired" else 10_000)))
    claim = await world.claim()
    match moved:
        case "fenced":
            await world.fence()
        case "handed back":
            await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch)
        case "claimed anew":
            await world.claim()
        case "reset":
            await world.inbox.reset(CONVERSATION, new_id(), source="http", sender="anna")
        case "expired":
            await world.wait(0.1)
            await world.runs.expire(limit=10)
        case _:
            await world.store(claim, final_write(claim))
    with pytest.raises(LostClaim):
        await world.store(claim, write(claim, messages=[said("late")], step=1, stage="model", keep="9-9"))
    with pytest.raises(LostClaim):
        await world.store(claim, final_write(claim, "late"))

    assert not any(outcome.outcome["reply"] == "late" for outcome in await world.inbox.outcomes([claim.run]))


async def test_results_are_stored_as_they_come_and_never_overwritten(world: World) -> None:
    """What an heir finds done stays done."""
    claim = await with_tools_open(world)
    first = EffectResult(0, "done", {"tool_use_id": "c1", "content": "first"})
    await world.store(claim, write(claim, results=[first]))
    second = EffectResult(0, "done", {"tool_use_id": "c1", "content": "second"})
    await world.store(claim, write(claim, results=[second]))
    await world.fence()
    taken = await world.claim(worker=await world.hire())

    assert (taken.stage, taken.step) == ("tools", 1)
    assert [(effect.state, effect.result) for effect in taken.effects] == [
        ("done", {"tool_use_id": "c1", "content": "first"})
    ]


async def test_an_heir_adds_what_was_not_intended_and_leaves_the_rest(world: World) -> None:
    """One of two calls did more than read for the worker that died, and the other does for its heir."""
    await world.accept(new_run())
    claim = await world.claim()
    intents = [Intent(index, f"c{index}", "act", "once", "ab" * 32) for index in range(2)]
    asked = [said("", call("act", "c0"), call("act", "c1"))]
    await world.store(claim, write(claim, messages=asked, intents=intents[:1], step=1, stage="tools"))
    await world.fence()
    world.me = await world.hire()
    heir = await world.claim()
    assert [effect.call_index for effect in heir.effects] == [0]
    added = write(heir, intents=intents[1:])
    assert await world.store(heir, added)
    assert await world.store(heir, added)  # its answer was lost, and it asks again
    doubt = EffectResult(0, "in_doubt", {"tool_use_id": "c0", "content": "in doubt"})
    await world.store(heir, write(heir, results=[doubt]))
    await world.fence()
    third = await world.claim(worker=await world.hire())
    assert [(effect.call_index, effect.state) for effect in third.effects] == [(0, "in_doubt"), (1, "intended")]


async def test_the_next_call_is_reserved_with_the_results(world: World) -> None:
    """No call is made without money set aside, and no commit is spent on that alone."""
    claim = await with_tools_open(world)
    reserve = reservation()
    done = EffectResult(0, "in_doubt", {"tool_use_id": "c1", "content": "?"})
    messages = [results(("c1", "?"), ("c2", "x"))]
    await world.store(claim, write(claim, messages=messages, results=[done], reserve=reserve, step=2, stage="model"))

    assert await world.open_reservations() == {reserve.call_id}
    await world.fence()
    taken = await world.claim(worker=await world.hire())
    assert (taken.stage, taken.step, list(taken.effects)) == ("model", 2, [])


async def test_an_end_releases_the_conversation_when_nothing_waits(world: World) -> None:
    """Any worker may take the next message."""
    await world.accept(new_run())
    claim = await world.claim()
    assert await world.store(claim, final_write(claim)) is False
    await world.accept(new_run())

    assert (await world.claim(worker=await world.hire())).ordinal == 2


async def test_an_end_keeps_the_conversation_when_more_waits(world: World) -> None:
    """The line goes on without a wake-up."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.accept(new_run("more"))
    assert await world.store(claim, final_write(claim)) is True

    assert await world.ask(worker=await world.hire()) == "owned"
    assert (await world.claim()).text == "more"


async def test_an_end_may_put_a_compaction_at_the_end_of_the_line(world: World) -> None:
    """It survives whoever asked for it, and keeps the conversation."""
    await world.accept(new_run())
    claim = await world.claim()
    compact = new_id()
    assert await world.store(claim, final_write(claim, ending=ending(claim, compact=compact))) is True
    taken = await world.claim(routes={"*": ROUTE, "compact": Route("compaction", Decimal(1), "USD")})

    assert (taken.run, taken.kind, taken.ordinal, taken.route.model) == (compact, "compact", 2, "compaction")
    assert taken.session.id == claim.session.id


async def test_what_a_failed_compaction_leaves_is_read_by_the_next_claim(world: World) -> None:
    """So that it is not bought again with every message, whichever worker answers."""
    await world.accept(new_run())
    first = await world.claim()
    assert first.session.compact_above == 0
    after = SessionAfter(2000, "m", warned=True, compact_above=2200)
    await world.store(first, write(first, settle=settlement(first), ending=ending(first, session=after)))
    await world.accept(new_run())
    second = await world.claim()
    assert (second.session.compact_above, second.session.context_tokens, second.session.warned) == (2200, 2000, True)


async def test_only_one_compaction_waits_at_a_time(world: World) -> None:
    """Each answer before it asks for one too; the second would compact what is left for no reason."""
    for text in ("one", "two"):
        await world.accept(new_run(text))
    first, second = new_id(), new_id()
    claim = await world.claim()
    await world.store(claim, final_write(claim, ending=ending(claim, compact=first)))
    claim = await world.claim()
    assert await world.store(claim, final_write(claim, ending=ending(claim, compact=second))) is True
    claim = await world.claim()
    assert claim.run == first
    assert await world.store(claim, write(claim, ending=ending(claim))) is False


async def test_a_dropped_run_leaves_no_row_in_the_context(world: World) -> None:
    """A message that failed before anything was done is as if never said."""
    await world.accept(new_run("lost"))
    claim = await world.claim()
    await world.store(claim, write(claim, ending=ending(claim, state="failed", drop=True)))
    await world.accept(new_run("again"))
    following = await world.claim()

    assert [body["content"] for body in bodies(following)] == ["again"]


async def test_the_outcome_is_told_as_it_was_stored(world: World) -> None:
    """People who wait get exactly what the transaction held."""
    await world.accept(new_run())
    claim = await world.claim()
    assert list(await world.inbox.outcomes([claim.run])) == []
    await world.store(claim, final_write(claim, "hi"))
    (finished,) = await world.inbox.outcomes([claim.run, new_id()])

    assert (finished.run, finished.conversation, finished.terminal) == (
        claim.run,
        CONVERSATION,
        terminal_id(claim.epoch),
    )
    assert finished.outcome == {"state": "done", "run_id": str(claim.run), "reply": "hi"}


async def test_a_call_is_booked_once(world: World) -> None:
    """Money is exact: the first figure stands, to the last digit."""
    await world.accept(new_run())
    claim = await world.claim()
    exact = settlement(claim, cost=Decimal("0.000000000123456789"))
    await world.runs.settle(exact)
    await world.runs.settle(replace(exact, cost=Decimal(9)))
    await world.store(claim, final_write(claim))

    (booked,) = await world.booked()
    assert booked.cost == Decimal("0.000000000123456789")


async def test_a_run_that_is_handed_back_counts_no_attempt(world: World) -> None:
    """A deploy is nobody's fault."""
    await world.accept(new_run())
    claim = await world.claim()
    assert await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch) is True
    assert await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch) is False
    taken = await world.claim(worker=await world.hire())

    assert (taken.run, taken.attempts) == (claim.run, 1)
    assert len(taken.messages) == 1


async def test_a_call_that_was_neither_reserved_nor_made_leaves_nothing(world: World) -> None:
    """The step that would have reserved it was lost; a row of costs for it would answer to no request."""
    await world.accept(new_run())
    claim = await world.claim()
    never = replace(settlement(claim, cost=Decimal(0)), call_id=new_id(), usage=Usage())
    await world.runs.settle(never)
    assert list(await world.booked()) == []

    await world.runs.settle(replace(never, call_id=claim.call_id))  # reserved and not made: closed at nothing
    (booked,) = await world.booked()
    assert (booked.call_id, booked.cost) == (claim.call_id, Decimal(0))
    assert await world.open_reservations() == set()
