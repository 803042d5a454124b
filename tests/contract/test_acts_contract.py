"""Acts in Postgres alone: one transaction with their result, asked of the fake and of Postgres."""

from dataclasses import replace

import pytest

from shared.domain.run import Claim, EffectResult, Intent
from shared.errors import LostClaim
from shared.ports.acts import Act
from tests.builders import call, ending, new_run, results, said, settlement, write
from tests.runs_worlds import World


async def _with_act_open(world: World) -> Claim:
    """A run whose answer asked for one act in Postgres."""
    await world.teach_acts()
    await world.accept(new_run())
    claim = await world.claim()
    intent = Intent(0, "c1", "note", "local", "ab" * 32)
    asked = [said("", call("note", "c1", text="a"))]
    step = write(claim, messages=asked, settle=settlement(claim), intents=[intent], step=1, stage="tools")
    await world.store(claim, replace(step, keep=f"{claim.epoch}-7"))
    return claim


def _act(world: World, claim: Claim, name: str = "echo", text: str = "a") -> Act:
    return Act(claim.conversation, world.me, claim.epoch, claim.run, 1, 0, name, {"text": text})


async def test_an_act_is_done_and_answered(world: World) -> None:
    """The text is the model's; who is to look comes with it."""
    claim = await _with_act_open(world)
    answer = await world.acts.act(_act(world, claim))
    assert answer.text == f"a of {claim.run}:1:0"
    assert (answer.error, answer.wake, answer.nudge) == (None, ("http:test:x",), ("telegram",))
    assert await world.echoed() == ["a"]


async def test_an_act_that_is_asked_for_again_is_not_done_again(world: World) -> None:
    """Its answer may get lost in COMMIT."""
    claim = await _with_act_open(world)
    first = await world.acts.act(_act(world, claim))
    assert await world.acts.act(_act(world, claim, text="b")) == first
    assert await world.echoed() == ["a"]


async def test_an_heir_finds_the_result_of_an_act_stored_with_it(world: World) -> None:
    """There is no moment in which it has happened and nobody knows."""
    claim = await _with_act_open(world)
    await world.acts.act(_act(world, claim))
    await world.fence()
    heir = await world.claim(worker=await world.hire())
    assert [(effect.state, (effect.result or {})["content"]) for effect in heir.effects] == [
        ("done", f"a of {claim.run}:1:0")
    ]


@pytest.mark.parametrize(("effect", "needs"), [("read", 1), ("idempotent", 1), ("once", 1), ("local", 4)])
async def test_code_without_acts_leaves_a_run_that_intends_one(world: World, effect: str, needs: int) -> None:
    """It would call the act in doubt, which has not happened; of every other class it says what is true."""
    await world.accept(new_run())
    claim = await world.claim()
    intents = [Intent(index, f"c{index}", "note", effect, "ab" * 32) for index in range(2)]
    asked = [said("", call("note", "c0"), call("note", "c1"))]
    await world.store(claim, write(claim, messages=asked, intents=intents, step=1, stage="tools"))
    assert await world.needs(claim.run) == needs


async def test_what_a_run_needs_is_never_lowered_by_an_act(world: World) -> None:
    """Newer code may have written it."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.demand(claim.run, 5)
    intent = Intent(0, "c0", "note", "local", "ab" * 32)
    asked = [said("", call("note", "c0"))]
    await world.store(claim, write(claim, messages=asked, intents=[intent], step=1, stage="tools"))
    assert await world.needs(claim.run) == 5


async def test_an_act_under_a_lost_claim_changes_nothing(world: World) -> None:
    """An heir does it, and it must not happen twice."""
    claim = await _with_act_open(world)
    await world.fence()
    await world.claim(worker=await world.hire())
    with pytest.raises(LostClaim):
        await world.acts.act(_act(world, claim))
    assert await world.echoed() == []


async def test_a_refusal_is_a_result(world: World) -> None:
    """The model reads why."""
    claim = await _with_act_open(world)
    answer = await world.acts.act(_act(world, claim, "refuse"))
    assert (answer.text, answer.error) == ("", "not today")
    await world.fence()
    heir = await world.claim(worker=await world.hire())
    assert heir.effects[0].result is not None
    assert heir.effects[0].result["content"] == "Error: not today"
    assert heir.effects[0].result["is_error"] is True


async def test_what_is_stored_with_the_step_leaves_the_result_as_it_is(world: World) -> None:
    """The round stores all its results once more."""
    claim = await _with_act_open(world)
    await world.acts.act(_act(world, claim))
    done = EffectResult(0, "done", {"tool_use_id": "c1", "content": "another"})
    await world.store(claim, write(claim, results=[done]))
    await world.fence()
    heir = await world.claim(worker=await world.hire())
    assert [(effect.result or {})["content"] for effect in heir.effects] == [f"a of {claim.run}:1:0"]


async def test_an_act_without_a_result_is_never_in_doubt(world: World) -> None:
    """It has not happened, whoever ends the run."""
    claim = await _with_act_open(world)
    await world.store(claim, write(claim, messages=[results(("c1", "x")), said("end")], ending=ending(claim)))
    (finished,) = await world.ended(claim.run)
    assert not finished.outcome.get("notices")
