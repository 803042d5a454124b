"""What a claim grants and brings, asked of the fake and of Postgres."""

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.domain.money import Usage
from shared.domain.run import Claim, Compaction, Route, SessionAfter
from shared.ids import new_id
from shared.ports.runs import Cached
from tests.builders import (
    CONVERSATION,
    ROUTE,
    bodies,
    ending,
    final_write,
    new_run,
    settlement,
    write,
)
from tests.runs_worlds import World, with_tools_open


async def test_a_claim_brings_the_run_the_session_and_the_persons_words(world: World) -> None:
    """Everything a worker needs comes with one round trip."""
    accepted = await world.accept(
        new_run("hello", source="telegram", tier="lean", sender="anna", traceparent="00-ab-cd-01")
    )
    call_id = new_id()
    claim = await world.claim(call_id=call_id)

    assert (claim.run, claim.conversation, claim.ordinal) == (accepted.run, CONVERSATION, 1)
    assert (claim.kind, claim.source, claim.tier, claim.sender) == ("message", "telegram", "lean", "anna")
    assert (claim.principal, claim.contact, claim.channel) == ("key", "anna", "http")
    assert (claim.text, claim.traceparent) == ("hello", "00-ab-cd-01")
    assert (claim.stage, claim.step, claim.keep, claim.attempts, claim.epoch) == ("model", 0, "0-1", 1, 1)
    assert (claim.route, claim.call_id) == (ROUTE, call_id)
    assert timedelta(minutes=59) < claim.time_left <= timedelta(hours=1)
    assert not claim.cancel_asked
    assert (claim.session.last_ordinal, claim.session.live_from, claim.history_from) == (1, 1, 1)
    (row,) = claim.messages
    assert (row.ordinal, row.run) == (1, accepted.run)
    assert row.body["role"] == "user"
    assert row.body["content"] == "hello"
    assert row.body.get("received_at")
    assert "warning" not in row.body


async def test_a_conversation_that_is_owned_is_left_alone(world: World) -> None:
    """Two workers that got the same wake-up must not both answer."""
    other = await world.hire()
    await world.accept(new_run())
    await world.claim()

    assert await world.ask(worker=other) == "owned"


async def test_of_two_workers_that_claim_at_once_one_gets_it(world: World) -> None:
    """Ownership is decided in one place."""
    workers = [world.me, *[await world.hire() for _ in range(4)]]
    await world.accept(new_run())
    got = await asyncio.gather(*(world.ask(worker=worker) for worker in workers))

    assert sum(isinstance(one, Claim) for one in got) == 1
    assert [one for one in got if not isinstance(one, Claim)] == ["owned"] * 4


async def test_there_is_nothing_to_claim_where_nothing_waits(world: World) -> None:
    """Wake-ups may come twice or late."""
    assert await world.ask("http:key:nobody") == "nothing"
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim))

    assert await world.ask() == "nothing"


@pytest.mark.parametrize("how", ["fenced", "drained", "never there"])
async def test_a_worker_that_is_not_alive_claims_nothing(world: World, how: str) -> None:
    """Whoever was fenced may not know it yet."""
    await world.accept(new_run())
    match how:
        case "fenced":
            await world.fence()
        case "drained":
            await world.fleet.drain(world.me)
        case _:
            world.me = new_id()

    assert await world.ask() == "fenced"


async def test_the_persons_words_are_stored_once_over_many_attempts(world: World) -> None:
    """An heir must not find the question twice."""
    await world.accept(new_run("hello"))
    first = await world.claim()
    await world.fence()
    heir = await world.hire()
    second = await world.claim(worker=heir)

    assert (second.run, second.attempts) == (first.run, 2)
    assert second.epoch > first.epoch
    assert [body["content"] for body in bodies(second)] == ["hello"]


async def test_a_claim_whose_answer_got_lost_can_be_asked_for_again(world: World) -> None:
    """The connection may break after the commit; the same worker asks again and that is no second attempt."""
    await world.accept(new_run())
    call_id = new_id()
    await world.claim(call_id=call_id)
    again = await world.claim(call_id=call_id)

    assert again.attempts == 1
    assert len(again.messages) == 1
    assert await world.open_reservations() == {call_id}
    assert await world.store(again, final_write(again)) is False


async def test_a_call_whose_claim_got_lost_is_booked_as_a_guess(world: World) -> None:
    """Asked for anew under another call id, the first reservation would stay open for ever; it may have been used."""
    await world.accept(new_run())
    lost = await world.claim()
    again = await world.claim()

    assert again.attempts == 1
    assert await world.open_reservations() == {again.call_id}
    (booked,) = await world.booked()
    assert (booked.call_id, booked.cost, booked.estimated) == (lost.call_id, ROUTE.worst_case, True)
    assert again.spent.cost == 0  # a guess is booked, and does not count against the cap of the message


async def test_the_call_of_another_run_is_not_touched_by_a_claim(world: World) -> None:
    """What is out elsewhere is settled by whoever made it."""
    await world.accept(new_run(conversation="a"))
    await world.accept(new_run(conversation="b"))
    other = await world.claim("b")
    await world.claim("a")
    last = await world.claim("a")

    assert await world.open_reservations() == {other.call_id, last.call_id}


async def test_a_warning_goes_with_the_next_message_and_no_other(world: World) -> None:
    """The agent is told once that its memory will be compacted."""
    await world.accept(new_run("one"))
    await world.accept(new_run("two"))
    await world.accept(new_run("three"))
    first = await world.claim()
    after = SessionAfter(120_000, "m1", warned=True, pending_warning="write down what matters")
    await world.store(first, final_write(first, ending=ending(first, session=after)))
    second = await world.claim()
    unwarned = SessionAfter(130_000, "m1", warned=True)
    await world.store(second, final_write(second, ending=ending(second, session=unwarned)))
    third = await world.claim()

    warnings = {body["content"]: body.get("warning") for body in bodies(third) if body["role"] == "user"}
    assert warnings == {"one": None, "two": "write down what matters", "three": None}
    assert (third.session.warned, third.session.context_tokens) == (True, 130_000)


async def test_a_cached_history_is_not_sent_again(world: World) -> None:
    """Long sessions would else travel whole with every message."""
    await world.accept(new_run("one"))
    await world.accept(new_run("two"))
    first = await world.claim()
    await world.store(first, final_write(first, "answer"))
    cached = Cached(first.session.id, first.session.last_ordinal, first.session.live_from)
    second = await world.claim(cached=cached)

    assert second.history_from == 2
    assert [(row.ordinal, row.body["role"]) for row in second.messages] == [(2, "assistant"), (3, "user")]


@pytest.mark.parametrize("what", ["another session", "other rows"])
async def test_a_cache_that_does_not_fit_brings_everything(world: World, what: str) -> None:
    """After a reset or a compaction what a worker remembers is of no use."""
    await world.accept(new_run("one"))
    await world.accept(new_run("two"))
    first = await world.claim()
    await world.store(first, final_write(first, "answer"))
    session = new_id() if what == "another session" else first.session.id
    second = await world.claim(cached=Cached(session, 1, 1 if what == "another session" else 9))

    assert second.history_from == 1
    assert len(second.messages) == 3


async def test_compacted_rows_are_not_read_any_more(world: World) -> None:
    """They are kept, but the summary stands for them."""
    await world.accept(new_run("one"))
    await world.accept(new_run("two"))
    first = await world.claim()
    compact = new_id()
    after = SessionAfter(200_000, "m1", warned=True)
    await world.store(first, final_write(first, ending=ending(first, compact=compact, session=after)))
    second = await world.claim()
    await world.store(second, final_write(second))
    third = await world.claim()
    assert (third.run, third.kind) == (compact, "compact")
    assert [body["role"] for body in bodies(third)] == ["user", "assistant", "user", "assistant"]  # no row of its own
    compaction = Compaction("they said hello", 3, 2, 5, 1)
    await world.store(third, write(third, settle=settlement(third), ending=ending(third, compaction=compaction)))
    await world.accept(new_run("three"))
    cached = Cached(first.session.id, 4, 1)
    last = await world.claim(cached=cached)

    assert (last.session.summary, last.session.live_from) == ("they said hello", 3)
    assert (last.session.compaction_count, last.session.context_tokens, last.session.warned) == (1, 0, False)
    assert [body["content"] for body in bodies(last) if body["role"] == "user"] == ["two", "three"]
    assert last.history_from == 3


async def test_an_heir_is_told_what_is_known_of_open_tools(world: World) -> None:
    """Only so can it tell what may be run again."""
    claim = await with_tools_open(world)
    await world.fence()
    heir = await world.hire()
    taken = await world.claim(worker=heir)

    assert (taken.stage, taken.step, taken.keep) == ("tools", 1, f"{claim.epoch}-7")
    (effect,) = taken.effects
    assert (effect.call_index, effect.call_id, effect.tool, effect.effect) == (0, "c1", "exec", "once")
    assert (effect.state, effect.proof, effect.result) == ("intended", {"before": "x"}, None)
    assert await world.open_reservations() == set()  # tools come first; no model is called yet


async def test_a_second_attempt_knows_what_the_first_has_paid(world: World) -> None:
    """A cost limit is one of the message, not of the attempt."""
    claim = await with_tools_open(world)
    await world.fence()
    taken = await world.claim(worker=await world.hire())

    assert taken.spent.cost == settlement(claim).cost
    assert (taken.spent.calls, taken.spent.usage) == (1, Usage(input=100, output=10))


async def test_what_was_paid_is_known_after_a_hand_back_too(world: World) -> None:
    """A deploy must not reset the cost limit of a message, though it counts no attempt."""
    claim = await with_tools_open(world)
    assert await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch)
    taken = await world.claim(worker=await world.hire())

    assert taken.attempts == 1
    assert taken.spent.calls == 1
    assert taken.spent.cost == settlement(claim).cost


async def test_a_claim_sets_money_aside_for_the_first_call(world: World) -> None:
    """Every request to a provider has one reservation."""
    await world.accept(new_run(source="telegram"))
    call_id = new_id()
    cheap = Route("subagent", Decimal("0.01"), "EUR")
    claim = await world.claim(call_id=call_id, routes={"*": ROUTE, "telegram": cheap})

    assert claim.route == cheap
    assert await world.open_reservations() == {call_id}
    await world.store(claim, final_write(claim))
    assert await world.open_reservations() == set()


async def test_a_conversation_whose_owner_is_fenced_can_be_claimed(world: World) -> None:
    """That is the whole point of fencing."""
    await world.accept(new_run())
    await world.claim()
    heir = await world.hire()
    assert await world.ask(worker=heir) == "owned"
    assert list(await world.fence() or ()) == [CONVERSATION]

    assert (await world.claim(worker=heir)).epoch == 2
