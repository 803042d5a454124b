"""Messages that become one, and those that are taken in on the way; asked of the fake and of Postgres."""

from datetime import timedelta
from typing import Any

import pytest

from shared.domain.run import UNDERSTANDS, Claim, Later
from shared.ids import new_id
from tests.builders import (
    CHAT,
    CONVERSATION,
    address,
    bodies,
    chat_message,
    ending,
    final_write,
    new_run,
    results,
    said,
    settlement,
    write,
)
from tests.runs_worlds import World, with_tools_open


async def test_messages_in_a_row_become_one(world: World) -> None:
    """People write in pieces; one question is bought once, and all of them get the answer."""
    sent = [await world.accept(chat_message(text)) for text in ("look", "at", "this")]
    claim = await world.claim(CHAT)
    assert (claim.run, claim.ordinal) == (sent[0].run, 1)
    (body,) = bodies(claim)
    assert body["content"] == "look\nat\nthis"
    stored = await world.written(claim, final_write(claim, "a cat"))
    assert (stored.more, list(stored.followers)) == (False, [sent[1].run, sent[2].run])

    leader, *followers = await world.ended(*(one.run for one in sent))
    for one, follower in zip(sent[1:], followers, strict=True):
        assert follower.outcome == {**leader.outcome, "run_id": str(one.run), "merged_into": str(claim.run)}
        assert (follower.conversation, follower.terminal) == (CHAT, leader.terminal)
    assert await world.ask(CHAT) == "nothing"


async def test_a_merged_message_says_where_it_went(world: World) -> None:
    """Its sender may ask again for what became of it."""
    first, second = chat_message("one"), chat_message("two")
    await world.accept(first)
    await world.accept(second)
    await world.claim(CHAT)
    again = await world.accept(second)

    assert (again.state, again.into) == ("merged", first.id)


async def test_an_end_sent_twice_names_the_same_followers(world: World) -> None:
    """Only its answer got lost."""
    for text in ("one", "two"):
        await world.accept(chat_message(text))
    claim = await world.claim(CHAT)
    end = final_write(claim)
    first, again = await world.written(claim, end), await world.written(claim, end)

    assert first == again
    assert len(first.followers) == 1


async def test_over_http_nothing_is_merged(world: World) -> None:
    """Each caller waits for an answer of its own."""
    for text in ("one", "two"):
        await world.accept(new_run(text))

    assert bodies(await world.claim(debounce=60))[0]["content"] == "one"


@pytest.mark.parametrize(
    "other",
    [
        {"sender": "bert"},
        {"source": "system"},
        {"tier": "lean"},
        {"when_busy": "interrupt"},
        {"kind": "compact"},
    ],
    ids=str,
)
async def test_merging_stops_at_what_is_not_of_a_piece(world: World, other: dict[str, Any]) -> None:
    """Who asks, and how, is the same for the whole of a run."""
    await world.accept(chat_message("one"))
    await world.accept(chat_message("two"))
    await world.accept(chat_message("three", **other))
    await world.accept(chat_message("four"))
    ordinals = []
    while isinstance(claim := await world.ask(CHAT), Claim):
        ordinals.append(claim.ordinal)
        await world.store(claim, final_write(claim))

    # What interrupts stands first, and takes with it what follows.
    assert ordinals == ([3, 1] if "when_busy" in other else [1, 3, 4])


async def test_two_that_interrupt_are_two_questions(world: World) -> None:
    """Each of them was to be answered by itself, and at once."""
    await world.accept(chat_message("one"))
    await world.accept(chat_message("stop", when_busy="interrupt"))
    await world.accept(chat_message("no, this", when_busy="interrupt"))

    assert bodies(await world.claim(CHAT))[0]["content"] == "stop"


async def test_merging_stops_at_a_gap(world: World) -> None:
    """What was between them was said, and then taken back."""
    await world.accept(chat_message("one"))
    between = await world.accept(chat_message("two"))
    await world.accept(chat_message("three"))
    await world.inbox.cancel(between.run, reason="x")

    assert bodies(await world.claim(CHAT))[0]["content"] == "one"


async def test_what_only_newer_code_understands_is_not_merged(world: World) -> None:
    """Nor is it claimed: it waits for a newer worker."""
    first = await world.accept(chat_message("one"))
    second = await world.accept(chat_message("two"))
    await world.demand(second.run, UNDERSTANDS + 1)
    claim = await world.claim(CHAT)
    assert (claim.run, bodies(claim)[0]["content"]) == (first.run, "one")
    await world.store(claim, final_write(claim))
    await world.wait(0.01)

    assert await world.ask(CHAT) == "nothing"
    assert list(await world.runs.orphans(older_than=timedelta(0), limit=9)) == []
    await world.demand(second.run, UNDERSTANDS)
    assert (await world.claim(CHAT)).run == second.run


async def test_a_run_that_was_begun_takes_no_more_in(world: World) -> None:
    """An heir answers the question as it was asked."""
    await world.accept(chat_message("one"))
    await world.claim(CHAT)
    await world.accept(chat_message("two"))
    await world.fence()
    heir = await world.hire()
    taken = await world.claim(CHAT, worker=heir, debounce=60)

    assert [body["content"] for body in bodies(taken)] == ["one"]
    await world.store(taken, final_write(taken), worker=heir)
    assert bodies(await world.claim(CHAT, worker=heir))[-1]["content"] == "two"


async def test_an_heir_finds_the_whole_of_what_was_merged(world: World) -> None:
    """What was merged stays so, and ends with its leader whoever ends it."""
    sent = [await world.accept(chat_message(text)) for text in ("one", "two")]
    await world.claim(CHAT)
    await world.fence()
    heir = await world.hire()
    taken = await world.claim(CHAT, worker=heir)
    assert [body["content"] for body in bodies(taken)] == ["one\ntwo"]
    stored = await world.written(taken, final_write(taken), worker=heir)

    assert list(stored.followers) == [sent[1].run]


# debounce


async def test_nothing_is_touched_until_the_newest_message_is_old_enough(world: World) -> None:
    """More may follow; waiting for it holds neither owner nor slot."""
    for text in ("one", "two"):
        await world.accept(chat_message(text))
    before = await world.everything()
    got = await world.ask(CHAT, debounce=30)

    assert isinstance(got, Later)
    assert timedelta(seconds=25) < got.wait <= timedelta(seconds=30)
    assert await world.everything() == before
    assert await world.ask(CHAT, worker=await world.hire(), debounce=0) != "owned"


async def test_each_message_starts_the_wait_anew(world: World) -> None:
    """It is over when the newest one is old enough."""
    await world.accept(chat_message("one"))
    await world.wait(0.2)
    await world.accept(chat_message("two"))
    assert isinstance(await world.ask(CHAT, debounce=0.2), Later)
    await world.wait(0.25)

    assert bodies(await world.claim(CHAT, debounce=0.2))[0]["content"] == "one\ntwo"


async def test_somebody_elses_message_does_not_make_a_person_wait(world: World) -> None:
    """Only what would be merged counts."""
    await world.accept(chat_message("one"))
    await world.wait(0.2)
    await world.accept(chat_message("two", sender="bert"))

    assert bodies(await world.claim(CHAT, debounce=0.15))[0]["content"] == "one"


# steering


async def test_a_steering_text_is_taken_in_between_two_turns(world: World) -> None:
    """The model reads it with the next turn, and with it what stood before it in the line."""
    claim = await with_tools_open(world)
    sent = [
        await world.accept(new_run("first", sender="bert")),
        await world.accept(new_run("not so", when_busy="steer")),
        await world.accept(new_run("later")),
    ]
    done = results(("c1", "ok"), ("c2", "text"))
    stored = await world.written(claim, write(claim, messages=[done], step=2, stage="model", absorb=True))

    assert stored.more is True
    assert [dict(message)["content"] for message in stored.absorbed] == ["first", "not so"]
    assert all(message["role"] == "user" for message in stored.absorbed)
    told = await world.messages(claim.session.id)
    assert [body["role"] for body in told] == ["user", "assistant", "tool_results", "user", "user"]
    assert [dict(message) for message in stored.absorbed] == list(told[3:])
    ended = await world.written(claim, final_write(claim, "yes"))
    assert (ended.more, list(ended.followers)) == (True, [sent[0].run, sent[1].run])
    finished = await world.ended(sent[0].run, sent[1].run)
    assert [one.outcome["merged_into"] for one in finished] == [str(claim.run)] * 2
    assert (await world.claim()).text == "later"


async def test_nothing_is_taken_in_where_nothing_steers(world: World) -> None:
    """A message that was sent to wait, waits."""
    claim = await with_tools_open(world)
    await world.accept(new_run("later"))
    stored = await world.written(claim, write(claim, step=2, stage="model", absorb=True))

    assert list(stored.absorbed) == []
    assert await world.store(claim, final_write(claim)) is True


async def test_a_steering_text_that_no_step_took_in_is_answered_by_itself(world: World) -> None:
    """A run may end before its next turn."""
    claim = await with_tools_open(world)
    await world.accept(new_run("not so", when_busy="steer"))
    await world.store(claim, write(claim, step=2, stage="model"))
    await world.store(claim, final_write(claim))

    assert (await world.claim()).text == "not so"


async def test_a_step_that_took_texts_in_may_be_sent_twice(world: World) -> None:
    """The worker must hear what was taken in, though the first answer got lost; and it is stored once."""
    claim = await with_tools_open(world)
    await world.accept(new_run("not so", when_busy="steer"))
    step = write(claim, messages=[results(("c1", "x"), ("c2", "y"))], step=2, stage="model", absorb=True)
    first = await world.written(claim, step)
    await world.accept(new_run("nor so", when_busy="steer"))
    again = await world.written(claim, step)

    assert first == again
    assert [dict(message)["content"] for message in again.absorbed] == ["not so"]
    assert len(await world.messages(claim.session.id)) == 4
    await world.store(claim, final_write(claim))
    assert (await world.claim()).text == "nor so"


async def test_a_compaction_is_not_taken_in(world: World) -> None:
    """It is no text; it stays where it stands."""
    await world.accept(new_run("one"))
    await world.accept(new_run("two"))
    first = await world.claim()
    compact = new_id()
    await world.store(first, final_write(first, ending=ending(first, compact=compact)))
    second = await world.claim()
    await world.accept(new_run("not so", when_busy="steer"))
    step = write(second, messages=[said("")], settle=settlement(second), step=1, stage="model", absorb=True)
    stored = await world.written(second, step)
    assert [dict(message)["content"] for message in stored.absorbed] == ["not so"]
    await world.store(second, final_write(second))

    assert (await world.claim()).run == compact


async def test_who_was_merged_is_told_by_their_own_webhook(world: World) -> None:
    """Each caller that left an address waits for an answer at it."""
    await world.accept(new_run("one", sender="anna", webhook="callback", details={"notify_meta": {"n": 1}}))
    claim = await world.claim()
    steering = new_run("two", sender="bert", when_busy="steer", webhook="callback", details={"notify_meta": {"n": 2}})
    await world.accept(steering)
    await world.accept(new_run("three", when_busy="steer"))
    await world.store(claim, write(claim, step=1, stage="model", absorb=True))
    await world.store(claim, final_write(claim, "yes"))

    webhooks = await world.webhooks()
    posted = {one.run: one.body for one in webhooks}
    assert len(webhooks) == 2
    assert {run: (body["run_id"], body["sender"]) for run, body in posted.items()} == {
        claim.run: (str(claim.run), "anna"),
        steering.id: (str(steering.id), "bert"),
    }
    assert (posted[claim.run]["reply"], posted[claim.run]["notify_meta"]) == ("yes", {"n": 1})
    assert (posted[steering.id]["reply"], posted[steering.id]["notify_meta"]) == ("yes", {"n": 2})


async def test_only_what_is_carried_is_merged(world: World) -> None:
    """Who fetches answers by themselves may have sent two requests at once."""
    for text in ("one", "two"):
        await world.accept(new_run(text, address=address(CONVERSATION, channel="cli")))

    assert bodies(await world.claim())[0]["content"] == "one"
