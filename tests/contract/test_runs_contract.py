"""What every store of runs promises, asked of the fake and of Postgres."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.domain.money import Usage
from shared.domain.run import Claim, Compaction, EffectResult, Intent, Route, SessionAfter
from shared.errors import Conflict, LostClaim, TryLater
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.runs import Cached
from tests.builders import (
    CONVERSATION,
    ROUTE,
    bodies,
    call,
    ending,
    final_write,
    key,
    new_run,
    reservation,
    results,
    said,
    settlement,
    write,
)
from tests.runs_worlds import InMemoryWorld, PostgresWorld, World

NO_TIME = timedelta(0)


@pytest.fixture(params=["inmemory", "postgres"])
def bare(request: pytest.FixtureRequest) -> World:
    """A store without any worker."""
    return InMemoryWorld() if request.param == "inmemory" else PostgresWorld(request.getfixturevalue("database"))


@pytest.fixture
async def world(bare: World) -> World:
    """A store with one living worker."""
    bare.me = await bare.hire()
    return bare


async def _with_tools_open(world: World) -> Claim:
    """A run whose answer asked for one act and one look; both are still open."""
    await world.accept(new_run())
    claim = await world.claim()
    calls = [call("exec", "c1", command="ls"), call("read", "c2")]
    intent = Intent(0, "c1", "exec", "once", "ab" * 32, {"before": "x"})
    first = write(
        claim, messages=[said("a look", *calls)], settle=settlement(claim), intents=[intent], step=1, stage="tools"
    )
    assert await world.store(claim, replace(first, keep=f"{claim.epoch}-7"))
    return claim


# accept


async def test_messages_stand_in_the_order_in_which_they_were_accepted(world: World) -> None:
    """The line of a conversation is what people remember of it."""
    accepted = [await world.accept(new_run(f"m{number}")) for number in range(3)]
    elsewhere = await world.accept(new_run(conversation="cli"))

    assert [one.ordinal for one in accepted] == [1, 2, 3]
    assert elsewhere.ordinal == 1
    assert all(one.state == "accepted" and one.created for one in accepted)


async def test_the_same_id_is_accepted_once(world: World) -> None:
    """The answer to an accept may get lost; whoever asks again must not be answered twice by the agent."""
    new = new_run()
    first = await world.accept(new)
    again = await world.accept(new)

    assert again == first
    assert (await world.accept(new_run())).ordinal == 2


async def test_the_same_id_sent_twice_at_once_is_accepted_once(world: World) -> None:
    """A client that gave up waiting asks again while the first try is still on its way."""
    await world.accept(new_run("before"))
    new = new_run()
    twice = await asyncio.gather(*(world.accept(new) for _ in range(6)))

    assert {one.run for one in twice} == {new.id}
    assert {one.ordinal for one in twice} == {2}
    assert (await world.accept(new_run())).ordinal == 3


async def test_a_known_key_gives_the_run_that_is_there(world: World) -> None:
    """A retry by the client's library must not become a second message."""
    first = await world.accept(new_run(idempotency=key()))
    again = await world.accept(new_run(idempotency=key()))

    assert again == replace(first, created=False)
    assert (await world.accept(new_run(idempotency=key("k2")))).ordinal == 2


async def test_a_known_key_with_another_body_is_refused(world: World) -> None:
    """It is a mistake of the caller, and nothing may change by it."""
    await world.accept(new_run(idempotency=key()))
    with pytest.raises(Conflict):
        await world.accept(new_run(idempotency=key(body=b"other")))

    assert (await world.accept(new_run())).ordinal == 2


async def test_a_key_whose_time_is_over_starts_anew(world: World) -> None:
    """Keys are promised for a day, not for ever."""
    first = await world.accept(new_run(idempotency=key(lives=timedelta(milliseconds=20))))
    await world.wait(0.05)
    second = await world.accept(new_run(idempotency=key(body=b"other")))
    third = await world.accept(new_run(idempotency=key(body=b"other")))

    assert second.created
    assert second.run != first.run
    assert third == replace(second, created=False)


async def test_a_full_line_takes_nothing_and_keeps_no_trace_of_it(world: World) -> None:
    """Else the key of a refused message would point at a run that never was."""
    for _ in range(2):
        await world.accept(new_run(capacity=2))
    refused = new_run(capacity=2, idempotency=key())
    with pytest.raises(TryLater) as told:
        await world.accept(refused)
    assert told.value.after > 0

    claim = await world.claim()
    await world.store(claim, final_write(claim))
    later = await world.accept(refused)
    assert later.created
    assert later.ordinal == 3


async def test_a_hundred_accepts_with_one_key_make_one_run(world: World) -> None:
    """However hard a client hammers, the agent answers once."""
    accepted = await asyncio.gather(*(world.accept(new_run(idempotency=key())) for _ in range(100)))

    assert len({one.run for one in accepted}) == 1
    assert sum(one.created for one in accepted) == 1
    assert (await world.accept(new_run())).ordinal == 2


async def test_text_that_jsonb_can_not_hold_is_taken_all_the_same(world: World) -> None:
    """A stray NUL or half a surrogate pair must not cost a person the message."""
    await world.accept(new_run("grüß\u2028 🙂 'quoted' \\u0000 \0 \ud83d"))
    claim = await world.claim()

    assert claim.text == "grüß\u2028 🙂 'quoted' \\u0000 \ufffd \ufffd"
    assert bodies(claim)[0]["content"] == claim.text


# claim


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
    assert again.spent.cost == ROUTE.worst_case


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
    claim = await _with_tools_open(world)
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
    claim = await _with_tools_open(world)
    await world.fence()
    taken = await world.claim(worker=await world.hire())

    assert taken.spent.cost == settlement(claim).cost
    assert (taken.spent.calls, taken.spent.usage) == (1, Usage(input=100, output=10))


async def test_what_was_paid_is_known_after_a_hand_back_too(world: World) -> None:
    """A deploy must not reset the cost limit of a message, though it counts no attempt."""
    claim = await _with_tools_open(world)
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


# store


async def test_messages_are_stored_in_order(world: World) -> None:
    """History is linear."""
    claim = await _with_tools_open(world)
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
            await world.runs.reset(CONVERSATION, new_id(), source="http", sender="anna")
        case "expired":
            await world.wait(0.1)
            await world.runs.expire(limit=10)
        case _:
            await world.store(claim, final_write(claim))
    with pytest.raises(LostClaim):
        await world.store(claim, write(claim, messages=[said("late")], step=1, stage="model", keep="9-9"))
    with pytest.raises(LostClaim):
        await world.store(claim, final_write(claim, "late"))

    assert not any(outcome.outcome["reply"] == "late" for outcome in await world.runs.outcomes([claim.run]))


async def test_results_are_stored_as_they_come_and_never_overwritten(world: World) -> None:
    """What an heir finds done stays done."""
    claim = await _with_tools_open(world)
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


async def test_the_next_call_is_reserved_with_the_results(world: World) -> None:
    """No call is made without money set aside, and no commit is spent on that alone."""
    claim = await _with_tools_open(world)
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
    assert list(await world.runs.outcomes([claim.run])) == []
    await world.store(claim, final_write(claim, "hi"))
    (finished,) = await world.runs.outcomes([claim.run, new_id()])

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


# hand back


async def test_a_run_that_is_handed_back_counts_no_attempt(world: World) -> None:
    """A deploy is nobody's fault."""
    await world.accept(new_run())
    claim = await world.claim()
    assert await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch) is True
    assert await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch) is False
    taken = await world.claim(worker=await world.hire())

    assert (taken.run, taken.attempts) == (claim.run, 1)
    assert len(taken.messages) == 1


# the sweep


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
    await world.runs.reset("a", new_id(), source="http", sender="x")
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

    await world.runs.published(runs[:1])
    (left,) = await world.runs.unpublished(older_than=NO_TIME, limit=9)
    assert (left.run, left.outcome["reply"]) == (runs[1], "hi")
    assert await world.runs.tell_again(ended_within=NO_TIME) == 0
    assert await world.runs.tell_again(ended_within=timedelta(hours=1)) == 1  # the other was not told yet
    assert [ended.run for ended in await world.runs.unpublished(older_than=NO_TIME, limit=9)] == runs


# expire


async def test_a_run_nobody_took_fails_at_its_deadline(world: World) -> None:
    """No accepted message stays without an end."""
    late = await world.accept(new_run(deadline=timedelta(milliseconds=10)))
    await world.accept(new_run("next"))
    await world.wait(0.05)

    assert list(await world.runs.expire(limit=10)) == [late.run]
    assert list(await world.runs.expire(limit=10)) == []
    (finished,) = await world.runs.outcomes([late.run])
    assert (finished.outcome["state"], finished.outcome["reply"]) == ("failed", "")
    assert finished.outcome["error"]
    assert finished.terminal == terminal_id(0)
    assert (await world.claim()).text == "next"


async def test_history_keeps_no_call_without_a_result_when_time_is_over(world: World) -> None:
    """Providers refuse such a history, and with it every message that follows."""
    await world.accept(new_run(deadline=timedelta(milliseconds=150)))
    claim = await world.claim()
    calls = [call("exec", "c1"), call("read", "c2")]
    await world.store(claim, write(claim, messages=[said("", *calls)], step=1, stage="tools"))
    await world.wait(0.2)
    assert list(await world.runs.expire(limit=10)) == [claim.run]
    await world.accept(new_run("next"))
    following = await world.claim(worker=await world.hire())

    assert following.epoch > claim.epoch
    _, _, closed, stopped, _ = bodies(following)
    assert [result["tool_use_id"] for result in closed["results"]] == ["c1", "c2"]
    assert all(result["is_error"] for result in closed["results"])
    assert stopped["role"] == "assistant"
    assert stopped["text"].startswith("[Stopped: ")


async def test_a_run_that_had_said_nothing_leaves_nothing_at_its_deadline(world: World) -> None:
    """The next message must not look like an answer to a question that was never answered."""
    await world.accept(new_run("late", deadline=timedelta(milliseconds=60)))
    await world.claim()
    await world.wait(0.1)
    await world.runs.expire(limit=10)
    await world.accept(new_run("next"))
    following = await world.claim()

    assert [body["content"] for body in bodies(following)] == ["next"]


async def test_a_run_between_steps_is_closed_with_a_sentence(world: World) -> None:
    """Its results are there; the model reads that it was stopped."""
    await world.accept(new_run("late", deadline=timedelta(milliseconds=150)))
    claim = await world.claim()
    await world.store(claim, write(claim, messages=[said("", call())], step=1, stage="tools"))
    await world.store(claim, write(claim, messages=[results(("c1", "x"))], step=2, stage="model"))
    await world.wait(0.2)
    await world.runs.expire(limit=10)
    await world.accept(new_run("next"))
    following = await world.claim()

    assert [body["role"] for body in bodies(following)] == ["user", "assistant", "tool_results", "assistant", "user"]


# reset


async def test_a_reset_closes_the_session_and_cancels_what_runs(world: World) -> None:
    """It overtakes: people use it when something goes wrong."""
    await world.accept(new_run("one"))
    claim = await world.claim()
    await world.accept(new_run("two"))
    reset_id = new_id()
    reset = await world.runs.reset(CONVERSATION, reset_id, source="http", sender="anna")
    assert reset is not None
    assert (reset.session, list(reset.cancelled)) == (claim.session.id, [claim.run])
    again = await world.runs.reset(CONVERSATION, reset_id, source="http", sender="anna")
    assert again is not None
    assert (again.session, list(again.cancelled)) == (claim.session.id, [])

    (finished,) = await world.runs.outcomes([claim.run])
    assert (finished.outcome["state"], finished.terminal) == ("cancelled", terminal_id(claim.epoch))
    following = await world.claim()
    assert (following.text, following.ordinal) == ("two", 2)
    assert following.session.id != claim.session.id
    assert following.epoch > claim.epoch + 1
    assert [body["content"] for body in bodies(following)] == ["two"]


async def test_a_session_that_is_closed_ends_with_no_open_tool_call(world: World) -> None:
    """It is still read: by people, and by whoever draws memories from it."""
    claim = await _with_tools_open(world)
    assert await world.runs.reset(CONVERSATION, new_id(), source="http", sender="anna") is not None

    told = [body for body in await world.messages(claim.session.id)]
    assert [body["role"] for body in told] == ["user", "assistant", "tool_results", "assistant"]
    assert [result["tool_use_id"] for result in told[2]["results"]] == ["c1", "c2"]
    assert told[3]["text"].startswith("[Stopped: ")


async def test_a_reset_of_nothing_says_so(world: World) -> None:
    """Resetting twice is no fault."""
    assert await world.runs.reset("cli", new_id(), source="cli", sender="me") is None
    await world.accept(new_run())
    assert await world.runs.reset(CONVERSATION, new_id(), source="cli", sender="me") is None
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    assert await world.runs.reset(CONVERSATION, new_id(), source="cli", sender="me") is not None
    assert await world.runs.reset(CONVERSATION, new_id(), source="cli", sender="me") is None


# fence


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
    await world.runs.reset(CONVERSATION, new_id(), source="http", sender="anna")
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
