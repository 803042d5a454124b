"""Runs that other runs wait for: spawned, collected, bounded, never left behind. Asked of the fake and of Postgres."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from shared.domain.run import Claim, EffectResult, Intent, Route, StoredEffect, Waiting
from shared.ids import new_id
from shared.ports.acts import Act, ActAnswer
from shared.ports.children import Purse
from tests.builders import ROUTES, call, ending, final_write, new_run, said, settlement, write
from tests.runs_worlds import World, killed

PARENT_ENDED = "The run that asked for it has ended."


async def with_spawns_open(world: World, calls: int = 1, **fields: Any) -> Claim:
    """A run whose answer asked for so many sub-agents."""
    new = new_run(**fields)
    await world.accept(new)
    return await asking(world, await world.claim(new.address.conversation), calls)


async def asking(world: World, claim: Claim, calls: int = 1) -> Claim:
    wanted = [call("sessions_spawn", f"c{index}", prompt="x") for index in range(calls)]
    intents = [Intent(index, f"c{index}", "sessions_spawn", "local", "ab" * 32) for index in range(calls)]
    step = write(claim, messages=[said("", *wanted)], settle=settlement(claim), intents=intents, step=1, stage="tools")
    await world.store(claim, replace(step, keep=f"{claim.epoch}-7"))
    return claim


async def spawn(world: World, claim: Claim, index: int = 0, **fields: Any) -> ActAnswer:
    terms = {
        "id": new_id(),
        "prompt": "look it up",
        "tools": ["read"],
        "model": "primary",
        "max_turns": 7,
        "seconds": None,
        "deepest": 2,
        "most_a_round": 3,
        "most_open": 5,
        "most_characters": 100,
    }
    act = Act(claim.conversation, world.me, claim.epoch, claim.run, 1, index, "spawn", terms | fields)
    return await world.acts.act(act)


async def wait_for_children(world: World, claim: Claim) -> None:
    await world.store(claim, write(claim, waiting=Waiting("child")))


async def the_child(world: World, answer: ActAnswer) -> Claim:
    """Somebody takes it."""
    (conversation,) = answer.wake
    return await world.claim(conversation)


async def calls_of(world: World, parent: Claim) -> Sequence[StoredEffect]:
    """What the parent finds when it goes on."""
    return (await world.claim(parent.conversation)).effects


async def state_of(world: World, claim: Claim) -> str:
    found = await world.inbox.outcomes([claim.run])
    return str(found[0].outcome["state"]) if found else "open"


async def test_a_child_is_a_run_of_its_own(world: World) -> None:
    """Its own conversation and session, the parent's principal, and what it may do."""
    parent = await with_spawns_open(world)
    answer = await spawn(world, parent)
    assert answer.open
    assert (answer.text, answer.error) == ("", None)
    assert answer.wake == (f"system:sub:{parent.run}:1:0",)
    child = await the_child(world, answer)
    assert (child.text, child.source, child.tier, child.channel) == ("look it up", "system", "minimal", "system")
    assert (child.principal, child.sender) == (parent.principal, parent.sender)
    assert child.session.id != parent.session.id
    assert [row.body["role"] for row in child.messages] == ["user"]
    assert child.child is not None
    assert (child.child.parent, child.child.root, child.child.depth) == (parent.run, parent.run, 1)
    assert (child.child.tools, child.child.max_turns) == (frozenset({"read"}), 7)
    assert parent.child is None


async def test_a_child_that_is_asked_for_again_is_the_one_that_is_there(world: World) -> None:
    """The answer of the act may get lost in COMMIT, and an heir asks anew."""
    parent = await with_spawns_open(world)
    first = await spawn(world, parent)
    assert await spawn(world, parent) == first
    await world.fence()
    world.me = await world.hire()
    heir = await world.claim()
    assert [effect.state for effect in heir.effects] == ["intended"]
    assert await spawn(world, heir) == first


async def test_an_heir_reads_which_of_its_calls_a_child_will_answer(world: World) -> None:
    """It waits for that one without asking any tool; the other was not carried out yet."""

    def calls(claim: Claim) -> list[tuple[str, bool]]:
        return [(effect.state, "open" in ((effect.result or {}).get("said") or {})) for effect in claim.effects]

    parent = await with_spawns_open(world, 2)
    answer = await spawn(world, parent)
    await world.fence()
    world.me = await world.hire()
    heir = await world.claim()
    assert calls(heir) == [("intended", True), ("intended", False)]
    child = await the_child(world, answer)
    await world.store(child, final_write(child))
    await world.children.collect(parent.run)
    await world.fence()
    world.me = await world.hire()
    assert calls(await world.claim()) == [("done", False), ("intended", False)]


async def test_a_child_goes_to_the_model_it_was_asked_for(world: World) -> None:
    """And where a worker has none of that name, to that of its source."""
    cheap = Route("cheap", Decimal("0.01"), "USD")
    parent = await with_spawns_open(world, 2)
    answers = [await spawn(world, parent, index, model="cheap") for index in (0, 1)]
    child = await world.claim(*answers[0].wake, routes={**ROUTES, "model:cheap": cheap})
    assert child.route == cheap
    assert (await world.claim(*answers[1].wake)).route == ROUTES["*"]


async def test_older_code_takes_neither_a_child_nor_its_parent(world: World) -> None:
    """It would give it all tools, and would not know what it waits for."""
    parent = await with_spawns_open(world)
    answer = await spawn(world, parent)
    await wait_for_children(world, parent)
    assert await world.needs(parent.run) == 4
    child = await the_child(world, answer)
    assert await world.needs(child.run) == 4


async def test_a_parent_waits_until_its_child_has_ended(world: World) -> None:
    """Without owner; then it finds the answer as the result of its call."""
    parent = await with_spawns_open(world)
    answer = await spawn(world, parent)
    await wait_for_children(world, parent)
    assert await world.ask() == "nothing"
    assert await world.children.collect(parent.run) is None
    child = await the_child(world, answer)
    assert await world.children.collect(parent.run) is None
    await world.store(child, final_write(child, "forty-two"))
    assert await world.children.collect(parent.run) == parent.conversation
    (effect,) = await calls_of(world, parent)
    assert effect.state == "done"
    assert effect.result is not None
    assert (effect.result["tool_use_id"], effect.result["content"]) == ("c0", "forty-two")
    assert "is_error" not in effect.result
    assert effect.result["said"]["run"] == str(child.run)
    assert await world.children.collect(parent.run) is None


async def test_a_child_that_ends_before_its_parent_waits_is_not_missed(world: World) -> None:
    """The parent may still run another call of that round."""
    parent = await with_spawns_open(world)
    child = await the_child(world, await spawn(world, parent))
    await world.store(child, final_write(child, "soon"))
    assert await world.children.collect(parent.run) is None
    await wait_for_children(world, parent)
    assert await world.ask() == "nothing"
    assert list(await world.children.mind(limit=10)) == [parent.conversation]
    (effect,) = await calls_of(world, parent)
    assert (effect.result or {})["content"] == "soon"


async def test_a_parent_waits_for_all_of_its_children(world: World) -> None:
    """One answer is not the round."""
    parent = await with_spawns_open(world, 2)
    answers = [await spawn(world, parent, index) for index in (0, 1)]
    await wait_for_children(world, parent)
    for number, answer in enumerate(answers):
        assert await world.ask() == "nothing"
        child = await the_child(world, answer)
        await world.store(child, final_write(child, f"part {number}"))
        await world.children.collect(parent.run)
    contents = [(effect.result or {})["content"] for effect in await calls_of(world, parent)]
    assert contents == ["part 0", "part 1"]


async def test_results_of_other_calls_stand_beside_it(world: World) -> None:
    """They were stored before the parent waited."""
    await world.accept(new_run())
    parent = await world.claim()
    calls = [call("sessions_spawn", "c0", prompt="x"), call("read", "c1")]
    intents = [
        Intent(0, "c0", "sessions_spawn", "local", "ab" * 32),
        Intent(1, "c1", "read", "read", "ab" * 32),
    ]
    step = write(parent, messages=[said("", *calls)], settle=settlement(parent), intents=intents, step=1, stage="tools")
    await world.store(parent, replace(step, keep=f"{parent.epoch}-7"))
    child = await the_child(world, await spawn(world, parent))
    result = {"tool_use_id": "c1", "content": "a file"}
    await world.store(parent, write(parent, results=[EffectResult(1, "done", result)]))
    await wait_for_children(world, parent)
    await world.store(child, final_write(child, "x"))
    await world.children.collect(parent.run)
    assert [(effect.result or {})["content"] for effect in await calls_of(world, parent)] == ["x", "a file"]


async def test_what_has_gone_wrong_is_an_error_result(world: World) -> None:
    """Whoever ended it: a fault, a cancel, its deadline."""
    parent = await with_spawns_open(world, 3)
    answers = [await spawn(world, parent, index, seconds=0.2 if index == 2 else None) for index in range(3)]
    await wait_for_children(world, parent)
    failed = await the_child(world, answers[0])
    gone = ending(failed, "", state="failed")
    gone = replace(gone, outcome={**gone.outcome, "error": "the model is away"})
    await world.store(failed, write(failed, messages=[said("x")], settle=settlement(failed), ending=gone))
    await world.inbox.cancel((await the_child(world, answers[1])).run, reason="enough")
    await world.fence()
    await world.inbox.cancel(await world.run_in(*answers[1].wake), reason="enough")
    await world.wait(0.3)
    await world.runs.expire(limit=10)
    world.me = await world.hire()
    await world.children.mind(limit=10)
    contents = [(effect.result or {})["content"] for effect in await calls_of(world, parent)]
    assert contents == [
        "Error: the sub-agent failed: the model is away",
        "Error: the sub-agent was cancelled: enough",
        "Error: the sub-agent failed: This took longer than it may, and was stopped.",
    ]


async def test_a_child_that_processes_died_with_is_given_up(world: World) -> None:
    """Its parent hears of it and goes on."""
    parent = await with_spawns_open(world)
    (conversation,) = (await spawn(world, parent)).wake
    await wait_for_children(world, parent)
    await killed(world, conversation, 4)
    await world.children.mind(limit=10)
    (effect,) = await calls_of(world, parent)
    assert (effect.result or {})["content"].startswith("Error: the sub-agent was given up: ")


async def test_an_empty_answer_a_long_one_and_a_doubt_are_told(world: World) -> None:
    """The parent's context has its limit, and its person hears of acts that may have happened."""
    parent = await with_spawns_open(world, 3)
    doubt = "I was interrupted while using 'exec': it may or may not have happened. I did not repeat it by myself."
    for index, (reply, notices) in enumerate([(" \n", []), ("y" * 101, []), ("ok", [doubt, "Stopped: limit."])]):
        child = await the_child(world, await spawn(world, parent, index))
        end = ending(child, reply)
        end = replace(end, outcome={**end.outcome, "notices": notices})
        await world.store(child, write(child, messages=[said(reply)], settle=settlement(child), ending=end))
    await wait_for_children(world, parent)
    assert await world.children.collect(parent.run) == parent.conversation
    results = [effect.result or {} for effect in await calls_of(world, parent)]
    assert results[0]["content"] == "(no output)"
    assert results[1]["content"] == "y" * 100 + "\n[cut after 100 characters]"
    assert results[2]["content"] == f"ok\n[system: {doubt}]\n[system: Stopped: limit.]"
    assert [result["said"]["notices"] for result in results] == [[], [], [doubt]]


async def test_too_many_and_too_deep_is_refused(world: World) -> None:
    """With words that the model can act on; nothing is made."""
    parent = await with_spawns_open(world, 4)
    for index in range(3):
        assert (await spawn(world, parent, index)).open
    assert (await spawn(world, parent, 3)).error == "no more than 3 sub-agents can be started at once"
    other = await with_spawns_open(world, 3, conversation="http:key:berta")
    assert (await spawn(world, other, 0)).open
    assert (await spawn(world, other, 1)).open
    refused = await spawn(world, other, 2)
    assert refused.error == "5 sub-agents are at work for this person already; try again when some have ended"
    child = await asking(world, await world.claim(f"system:sub:{parent.run}:1:0"))
    assert (await spawn(world, child, most_open=9)).open
    grandchild = await asking(world, await world.claim(f"system:sub:{child.run}:1:0"))
    assert grandchild.child is not None
    assert (grandchild.child.depth, grandchild.child.root) == (2, parent.run)
    refused = await spawn(world, grandchild, most_open=9)
    assert refused.error == "sub-agents are nested 2 deep here, which is the limit"


async def test_a_child_has_no_more_time_than_its_parent(world: World) -> None:
    """And less where that was asked for."""
    parent = await with_spawns_open(world, 2, deadline=timedelta(seconds=100))
    longer = await the_child(world, await spawn(world, parent, 0, seconds=1000))
    shorter = await the_child(world, await spawn(world, parent, 1, seconds=10))
    assert timedelta(seconds=90) < longer.time_left <= timedelta(seconds=100)
    assert timedelta(0) < shorter.time_left <= timedelta(seconds=10)


async def test_children_end_with_their_parent(world: World) -> None:
    """One that waits for a slot, one in hand, and a child of a child; and nothing goes on because of it."""
    parent = await with_spawns_open(world, 2)
    answers = [await spawn(world, parent, index) for index in (0, 1)]
    child = await asking(world, await the_child(world, answers[0]))
    grandchild = await spawn(world, child)
    await wait_for_children(world, child)
    await wait_for_children(world, parent)
    assert (await world.inbox.cancel(parent.run, reason="enough")).status == "cancelled"
    assert await state_of(world, child) == "open"
    assert list(await world.children.mind(limit=10)) == []
    await world.children.mind(limit=10)
    assert await state_of(world, child) == "cancelled"
    waited = [await world.run_in(*answer.wake) for answer in (answers[1], grandchild)]
    ends = await world.inbox.outcomes(waited)
    assert [end.outcome["error"] for end in ends] == [PARENT_ENDED] * 2
    assert await world.ask() == "nothing"
    assert list(await world.children.mind(limit=10)) == []


async def test_a_child_in_hand_is_told_to_end_with_its_parent(world: World) -> None:
    """Its worker hears it as any cancel."""
    parent = await with_spawns_open(world)
    child = await the_child(world, await spawn(world, parent))
    await wait_for_children(world, parent)
    await world.inbox.reset(parent.conversation, new_id(), source="http", sender="x")
    await world.children.mind(limit=10)
    assert await world.runs.cancels({child.conversation: child.epoch}) == {child.conversation: PARENT_ENDED}


async def asks_for_leave(world: World, claim: Claim, limit: str, *, root: Claim) -> Purse:
    return await world.children.let_through(claim.call_id, run=claim.run, root=root.run, limit=Decimal(limit))


async def siblings(world: World, count: int = 2) -> tuple[Claim, list[Claim]]:
    """A parent and its children in hand; each has money set aside for its first call: at most 0.75 (``ROUTE``)."""
    parent = await with_spawns_open(world, count)
    answers = [await spawn(world, parent, index) for index in range(count)]
    return parent, [await the_child(world, answer) for answer in answers]


async def test_the_money_of_a_tree_is_one(world: World) -> None:
    """Parent, children and their children count against each other; others don't."""
    parent, (child, sibling) = await siblings(world)
    child = await asking(world, child)
    grandchild = await the_child(world, await spawn(world, child))
    await world.runs.settle(settlement(sibling, cost=Decimal("0.25")))
    await world.runs.settle(settlement(grandchild, cost=Decimal("0.5")))
    other = await with_spawns_open(world, 1, conversation="http:key:berta")
    own = settlement(parent).cost
    for asks, beside in [
        (parent, own + Decimal("0.75")),
        (child, own + Decimal("0.75")),
        (grandchild, 2 * own + Decimal("0.25")),
    ]:
        purse = await asks_for_leave(world, asks, "0.75", root=parent)
        assert (purse.leave, purse.spent_beside) == ("none", beside)
    assert (await asks_for_leave(world, other, "0.75", root=other)).spent_beside == 0
    booked = await world.principals_of_costs()
    assert booked == {parent.principal}


async def test_children_that_ask_at_once_pass_the_limit_by_one_call_at_most(world: World) -> None:
    """Each would see the same money left; so the most that a call may cost that is out counts as if it were paid."""
    parent, children = await siblings(world, 3)
    asked = [asks_for_leave(world, child, "0.5", root=parent) for child in children]
    leaves = [purse.leave for purse in await asyncio.gather(*asked)]
    assert sorted(leaves) == ["given", "wait", "wait"]
    first = children[leaves.index("given")]
    rest = [child for child in children if child is not first]
    assert (await asks_for_leave(world, first, "0.5", root=parent)).leave == "given"
    await world.runs.settle(settlement(first, cost=Decimal("0.25")))
    leaves = [(await asks_for_leave(world, child, "0.5", root=parent)).leave for child in rest]
    assert leaves == ["given", "wait"]
    await world.runs.settle(settlement(rest[0], cost=Decimal("0.75")))
    assert (await asks_for_leave(world, rest[1], "0.5", root=parent)).leave == "none"


async def test_calls_that_fit_together_go_out_together(world: World) -> None:
    """Sub-agents work side by side wherever the money is there."""
    parent, children = await siblings(world, 3)
    leaves = [(await asks_for_leave(world, child, "1.6", root=parent)).leave for child in children]
    assert leaves == ["given", "given", "given"]


async def test_what_nobody_can_tell_of_any_more_holds_up_nobody(world: World) -> None:
    """A worker died with its call out: that call is closed, and only what was paid counts, as for any run."""
    parent, (child, sibling) = await siblings(world)
    assert (await asks_for_leave(world, child, "0.5", root=parent)).leave == "given"
    assert (await asks_for_leave(world, sibling, "0.5", root=parent)).leave == "wait"
    await world.fence()
    world.me = await world.hire()
    heir = await world.claim(sibling.conversation)
    assert (await asks_for_leave(world, heir, "0.5", root=parent)).leave == "given"
    assert (await asks_for_leave(world, child, "9", root=parent)).leave == "lost"


async def test_a_child_knows_where_its_root_is_spoken_to(world: World) -> None:
    """And so does a child of a child: what they find out and remember is for whoever speaks there."""
    parent, (child, _) = await siblings(world)
    child = await asking(world, child)
    grandchild = await the_child(world, await spawn(world, child))
    works_in = [claim.child.works_in for claim in (child, grandchild) if claim.child is not None]
    assert works_in == [parent.conversation] * 2


async def test_a_child_goes_out_to_nobody(world: World) -> None:
    """No delivery, no webhook; its session is closed when its answer is taken over."""
    parent = await with_spawns_open(world, webhook="callback")
    child = await the_child(world, await spawn(world, parent))
    await world.store(child, final_write(child, "quiet"))
    await wait_for_children(world, parent)
    await world.children.collect(parent.run)
    assert await world.deliveries() == []
    assert await world.webhooks() == []
    assert await world.inbox.reset(child.conversation, new_id(), source="http", sender="x") is None


async def test_an_open_call_is_no_doubt_when_its_run_ends(world: World) -> None:
    """A child is not an act of which nobody knows."""
    parent = await with_spawns_open(world)
    await spawn(world, parent)
    await world.fence()
    await world.inbox.cancel(parent.run, reason="enough")
    (finished,) = await world.ended(parent.run)
    assert not finished.outcome.get("notices")


async def test_a_text_while_a_run_waits_for_a_child_is_the_next_message(world: World) -> None:
    """Nobody was asked anything."""
    parent = await with_spawns_open(world)
    await spawn(world, parent)
    await wait_for_children(world, parent)
    accepted = await world.accept(new_run("yes"))
    assert (accepted.state, accepted.into) == ("accepted", None)
    assert list(await world.approvals(parent.run)) == []
