"""How a message gets its place in the line, asked of the fake and of Postgres."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.errors import Conflict, Full
from tests.builders import (
    address,
    bodies,
    final_write,
    key,
    new_run,
)
from tests.runs_worlds import World, with_question


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


async def test_a_known_key_gives_the_conversation_of_the_run_that_is_there(world: World) -> None:
    """Who names no conversation begins a new one with each request; the one to wake is that of the first."""
    first = await world.accept(new_run(conversation="http:default:new-1", idempotency=key()))
    again = await world.accept(new_run(conversation="http:default:new-2", idempotency=key()))

    assert (again.run, again.conversation) == (first.run, "http:default:new-1")


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
    with pytest.raises(Full) as told:
        await world.accept(refused)
    assert told.value.after > 0
    assert not told.value.of_all

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


async def test_open_runs_are_counted_by_principal(world: World) -> None:
    """What has ended counts no more, whatever waits for a person does."""
    for name, principal in (("a", "key:1"), ("b", "key:1"), ("c", "key:2")):
        await world.accept(new_run(address=address(name, principal=principal)))
    assert dict(await world.inbox.open_runs()) == {"key:1": 2, "key:2": 1}
    claim = await world.claim("c")
    await world.store(claim, final_write(claim))
    await world.claim("a")

    assert dict(await world.inbox.open_runs()) == {"key:1": 2}


async def test_what_opens_no_further_run_is_known_before(world: World) -> None:
    """At a bound a repeated request still gets its run, and the answer to a question still arrives."""
    await world.accept(new_run(conversation="other", idempotency=key()))
    claim = await with_question(world)
    assert await world.inbox.adds_nothing(new_run(idempotency=key(body=b"whatever")))
    assert await world.inbox.adds_nothing(new_run("yes", sender=claim.sender))

    assert not await world.inbox.adds_nothing(new_run(idempotency=key("k2"), sender="somebody else"))
    assert not await world.inbox.adds_nothing(new_run(sender=claim.sender, when_busy="interrupt"))
    assert not await world.inbox.adds_nothing(new_run(conversation="other"))
