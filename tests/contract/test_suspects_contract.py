"""What becomes of a dead worker's runs, asked of the fake and of Postgres."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from shared.domain.run import Claim
from shared.ids import new_id
from tests.builders import CHAT, CONVERSATION, ROUTE, bodies, chat_message, final_write, new_run, waiting, write
from tests.runs_worlds import World, killed, with_tools_open


async def test_a_fence_books_what_may_have_been_bought(world: World) -> None:
    """A call that was out when its worker died is paid for; the guess is flagged as one."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.fence()

    (booked,) = await world.booked()
    assert (booked.call_id, booked.cost, booked.estimated) == (claim.call_id, ROUTE.worst_case, True)
    assert await world.open_reservations() == set()


async def test_a_fence_books_calls_whose_conversation_moved_on(world: World) -> None:
    """A reset frees the conversation, but the call that was out is still out when its worker dies."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.inbox.reset(CONVERSATION, new_id(), source="http", sender="anna")
    await world.fence()

    (booked,) = await world.booked()
    assert (booked.call_id, booked.estimated) == (claim.call_id, True)
    assert await world.open_reservations() == set()


async def test_a_fence_leaves_the_calls_of_others_alone(world: World) -> None:
    """Their money is settled by themselves."""
    other = await world.hire()
    await world.accept(new_run(conversation="a"))
    await world.accept(new_run(conversation="b"))
    await world.claim("a")
    theirs = await world.claim("b", worker=other)
    assert list(await world.fence() or ()) == ["a"]

    assert await world.open_reservations() == {theirs.call_id}
    assert await world.store(theirs, final_write(theirs), worker=other) is False


async def test_many_claims_racing_with_a_fence_leave_nothing_owned_by_the_dead(world: World) -> None:
    """Whichever comes first: a fenced worker owns nothing afterwards."""
    names = [f"c{number}" for number in range(12)]
    for name in names:
        await world.accept(new_run(conversation=name))
        await world.accept(new_run(conversation=name))
        claim = await world.claim(name)
        await world.store(claim, final_write(claim))  # more waits, so it is still owned
    got = await asyncio.wait_for(asyncio.gather(*(world.ask(name) for name in names), world.fence()), 5)
    await world.wait(0.01)

    heir = await world.hire()
    for name, one in zip(names, got, strict=False):
        assert isinstance(one, Claim) or one == "fenced"
        assert isinstance(await world.ask(name, worker=heir), Claim)
    assert all(booked.estimated for booked in await world.booked() if booked.cost == ROUTE.worst_case)


# suspicion


async def test_what_was_in_hand_when_a_process_died_is_suspected(world: World) -> None:
    """It may have killed it; one death proves little, so it goes on at once."""
    for name in ("a", "b", "c"):
        await world.accept(new_run(conversation=name))
    await world.accept(new_run(conversation="a"))
    first, _ = await world.claim("a"), await world.claim("b")
    assert first.suspected == 0
    await world.fence()
    heir = await world.hire()
    taken = {name: await world.claim(name, worker=heir, suspect=False) for name in ("a", "b", "c")}

    assert {name: claim.suspected for name, claim in taken.items()} == {"a": 1, "b": 1, "c": 0}
    await world.store(taken["a"], final_write(taken["a"]), worker=heir)
    assert (await world.claim("a", worker=heir)).suspected == 0  # it only stood in line behind


async def test_after_two_deaths_a_process_takes_one_at_a_time(world: World) -> None:
    """Two at once could hide behind each other."""
    await world.accept(new_run())
    await killed(world, CONVERSATION, 2)
    before = await world.everything()
    assert await world.ask(suspect=False) == "suspect"
    assert await world.everything() == before

    assert (await world.claim()).suspected == 2


async def test_after_three_deaths_it_runs_alone(world: World) -> None:
    """In a process that does nothing else, so that nobody else is hurt."""
    await world.accept(new_run())
    await killed(world, CONVERSATION, 3)
    before = await world.everything()
    assert await world.ask() == "alone"
    assert await world.ask(suspect=False) == "alone"
    assert await world.everything() == before

    assert (await world.claim(alone=True, suspect=False)).suspected == 3


async def test_who_owns_a_conversation_lets_go_of_a_suspect(world: World) -> None:
    """Else no process that has room for it could take it."""
    await world.accept(new_run())
    await killed(world, CONVERSATION, 2)
    claim = await world.claim()  # this worker has it in hand, and asks again
    assert claim.suspected == 2
    assert await world.ask(suspect=False) == "suspect"
    taken = await world.claim(worker=await world.hire())

    assert taken.epoch > claim.epoch


async def test_the_fourth_death_is_the_end(world: World) -> None:
    """Its person is told, its history is closed, and the line goes on."""
    first = await world.accept(chat_message("poison", webhook="callback"))
    await killed(world, CHAT, 1)
    second = await world.accept(chat_message("next", sender="bert"))
    await killed(world, CHAT, 3)
    (finished,) = await world.inbox.outcomes([first.run, second.run])

    assert (finished.outcome["state"], finished.outcome["reply"]) == ("dead", "")
    assert finished.outcome["error"].startswith("Four processes died")
    assert UUID(finished.outcome["worker"])  # the last one that died of it, and where
    assert finished.outcome["step"] == 0
    assert [row.text for row in await world.deliveries()] == [finished.outcome["error"]]
    (posted,) = await world.webhooks()
    assert (posted.body["state"], posted.body["error"]) == ("dead", finished.outcome["error"])
    claim = await world.claim(CHAT, suspect=False)
    assert (claim.run, claim.suspected) == (second.run, 0)
    assert [body["content"] for body in bodies(claim)] == ["next"]


async def test_a_dead_run_that_had_acted_leaves_a_whole_history(world: World) -> None:
    """Its open act is in doubt, and that is said."""
    claim = await with_tools_open(world)
    await world.fence()
    await killed(world, CONVERSATION, 3)
    (finished,) = await world.inbox.outcomes([claim.run])

    assert finished.outcome["state"] == "dead"
    (notice,) = finished.outcome["notices"]
    assert "'exec'" in notice
    roles = [body["role"] for body in await world.messages(claim.session.id)]
    assert roles == ["user", "assistant", "tool_results", "assistant"]


async def test_beside_a_strong_suspect_nobody_else_is_blamed(world: World) -> None:
    """Two processes died with it before; the third death is most likely its doing too."""
    for name in ("a", "b", "c"):
        await world.accept(new_run(conversation=name))
    await killed(world, "a", 2)
    await killed(world, "b", 1)
    for name in ("a", "b", "c"):
        await world.claim(name)
    await world.fence()
    heir = await world.hire()

    assert await world.ask("a", worker=heir) == "alone"
    assert (await world.claim("b", worker=heir)).suspected == 1
    assert (await world.claim("c", worker=heir)).suspected == 0


@pytest.mark.parametrize("how", ["drained", "stopped", "handed back", "waiting"])
async def test_only_a_death_counts(world: World, how: str) -> None:
    """Deploys, goodbyes and lost claims are nobody's fault."""
    claim = await with_tools_open(world)
    match how:
        case "drained":
            await world.fleet.drain(world.me)
            await world.fence()
        case "stopped":
            await world.fleet.fence(world.me, beat=None, state="stopped")
        case "handed back":
            await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch)
            await world.fence()
        case _:
            await world.store(claim, write(claim, waiting=waiting(wake_in=timedelta(seconds=0.05))))
            await world.fence()
            await world.wait(0.1)

    assert (await world.claim(worker=await world.hire())).suspected == 0


async def test_a_worker_that_was_only_stopped_takes_its_suspicion_back(world: World) -> None:
    """It finds itself fenced and alive: what it had in hand did not kill it."""
    for name in ("a", "b"):
        await world.accept(new_run(conversation=name))
    await killed(world, "a", 1)
    await world.claim("a")
    await world.claim("b")
    await world.fence()
    await world.absolve(world.me)
    await world.absolve(world.me)
    heir = await world.hire()

    assert (await world.claim("a", worker=heir)).suspected == 1
    assert (await world.claim("b", worker=heir)).suspected == 0


async def test_a_suspicion_of_others_is_not_taken_back(world: World) -> None:
    """Who died after it has really died."""
    await world.accept(new_run())
    await world.claim()
    await world.fence()
    await killed(world, CONVERSATION, 1)
    await world.absolve(world.me)

    assert await world.ask(worker=await world.hire(), suspect=False) == "suspect"
