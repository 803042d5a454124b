"""What every store of stored steps promises, asked of the fake and of Postgres."""

from collections.abc import Sequence

import pytest

from shared.domain.run import Claim, Told
from shared.errors import LostClaim
from shared.ids import new_id
from shared.messages.run_events import ACCEPTED_ID, STEP, RunEvent, event_id, terminal_id
from shared.ports.history import ToldSoFar
from tests.builders import CONVERSATION, final_write, new_run, results, said, write
from tests.runs_worlds import World, with_tools_open

BEGINNING = "0-0"


def told(step: int, *pieces: tuple[str, str]) -> Told:
    """A step as a worker has told it: kind and text."""
    events, offset = [], 0
    for kind, text in pieces:
        offset += len(text) if kind == "delta" else 1
        events.append((step * STEP + offset, kind, {"text": text}))
    return Told(step, events)


async def _in_step_two(world: World) -> Claim:
    """A run whose first two steps are stored."""
    await world.accept(new_run())
    claim = await world.claim()
    first, second = told(0, ("attempt", ""), ("delta", "Let me see.")), told(1, ("notice", "n"))
    keep = event_id(claim.epoch, 1, 1)
    await world.store(claim, write(claim, messages=[said("Let me see.")], step=1, stage="tools", told=first))
    await world.store(claim, write(claim, step=2, stage="model", told=second, keep=keep))
    return claim


def heard(so_far: ToldSoFar) -> Sequence[tuple[str, str]]:
    return [(event.id, event.data.get("text", "")) for event in so_far.events]


async def test_a_run_that_nobody_knows_has_told_nothing(world: World) -> None:
    """It was thrown away meanwhile."""
    assert await world.transcripts.told(new_id(), after=BEGINNING) == ToldSoFar()


async def test_a_run_that_was_only_accepted_says_that(world: World) -> None:
    """Redis may have been away when it was."""
    new = new_run()
    await world.accept(new)
    so_far = await world.transcripts.told(new.id, after=BEGINNING)
    data = {"run_id": str(new.id), "conversation": CONVERSATION}
    assert list(so_far.events) == [RunEvent(ACCEPTED_ID, "accepted", data)]
    assert (so_far.complete_to, so_far.ended, so_far.more) == (ACCEPTED_ID, None, False)
    assert list((await world.transcripts.told(new.id, after=ACCEPTED_ID)).events) == []


async def test_stored_steps_are_told_from_the_beginning(world: World) -> None:
    """Somebody joins late, and Redis has nothing."""
    claim = await _in_step_two(world)
    so_far = await world.transcripts.told(claim.run, after=BEGINNING)
    assert heard(so_far) == [
        (ACCEPTED_ID, ""),
        (event_id(claim.epoch, 0, 1), ""),
        (event_id(claim.epoch, 0, 12), "Let me see."),
        (event_id(claim.epoch, 1, 1), "n"),
    ]
    assert (so_far.complete_to, so_far.ended) == (event_id(claim.epoch, 1, 1), None)


async def test_text_is_cut_where_the_client_stands(world: World) -> None:
    """Half of it was heard."""
    claim = await _in_step_two(world)
    so_far = await world.transcripts.told(claim.run, after=event_id(claim.epoch, 0, 5))
    assert heard(so_far) == [(event_id(claim.epoch, 0, 12), "me see."), (event_id(claim.epoch, 1, 1), "n")]


async def test_who_has_heard_all_that_is_stored_gets_nothing(world: World) -> None:
    """Also when it stands in the step in hand, or in one of an attempt that is no more."""
    claim = await _in_step_two(world)
    for after in (event_id(claim.epoch, 1, 1), event_id(claim.epoch, 2, 40), event_id(claim.epoch + 7, 0, 1)):
        so_far = await world.transcripts.told(claim.run, after=after)
        assert (list(so_far.events), so_far.complete_to) == ([], event_id(claim.epoch, 1, 1))


async def test_the_largest_ids_are_asked_for_without_a_fault(world: World) -> None:
    """A client may send what it likes, as long as it has the form of an id."""
    claim = await _in_step_two(world)
    assert list((await world.transcripts.told(claim.run, after=f"{2**64 - 1}-{2**64 - 1}")).events) == []


async def test_the_end_brings_the_last_step_with_it(world: World) -> None:
    """Nothing is on its way any more when the end is stored."""
    claim = await _in_step_two(world)
    await world.store(claim, final_write(claim, "It is fine.", told=told(2, ("delta", "It is fine."))))
    so_far = await world.transcripts.told(claim.run, after=event_id(claim.epoch, 2, 3))
    assert heard(so_far) == [(event_id(claim.epoch, 2, 11), "is fine.")]
    assert so_far.ended is not None
    assert (so_far.ended.terminal, so_far.ended.outcome["reply"]) == (terminal_id(claim.epoch), "It is fine.")
    assert list((await world.transcripts.told(claim.run, after=so_far.ended.terminal)).events) == []


async def test_one_step_under_two_epochs_is_told_in_the_order_of_the_epochs(world: World) -> None:
    """An owner stored what it told before it waited; its heir goes on in the same step."""
    claim = await _in_step_two(world)
    await world.store(claim, write(claim, told=told(2, ("delta", "one ")), keep=event_id(claim.epoch, 2, 4)))
    await world.fence()
    heir = await world.hire()
    second = await world.claim(worker=heir)
    done = final_write(second, told=told(2, ("attempt", ""), ("delta", "two")))
    await world.store(second, done, worker=heir)
    so_far = await world.transcripts.told(claim.run, after=event_id(claim.epoch, 1, 1))
    assert heard(so_far) == [
        (event_id(claim.epoch, 2, 4), "one "),
        (event_id(second.epoch, 2, 1), ""),
        (event_id(second.epoch, 2, 4), "two"),
    ]


async def test_what_an_overtaken_owner_tells_is_not_stored(world: World) -> None:
    """Its heir tells that step."""
    claim = await _in_step_two(world)
    await world.fence()
    heir = await world.hire()
    await world.claim(worker=heir)
    with pytest.raises(LostClaim):
        await world.store(claim, write(claim, step=3, told=told(2, ("delta", "stale"))))
    assert list((await world.transcripts.told(claim.run, after=event_id(claim.epoch, 1, 1))).events) == []


async def test_a_write_that_is_sent_twice_is_told_once(world: World) -> None:
    """The connection broke in the commit, and the worker asked again."""
    await world.accept(new_run())
    claim = await world.claim()
    first = write(claim, step=1, told=told(0, ("delta", "once")), keep=event_id(claim.epoch, 0, 4))
    await world.store(claim, first)
    await world.store(claim, first)
    assert heard(await world.transcripts.told(claim.run, after=ACCEPTED_ID)) == [(event_id(claim.epoch, 0, 4), "once")]


async def test_a_long_run_is_told_some_steps_at_a_time(world: World) -> None:
    """Asked again for what comes after, it gets to the end."""
    await world.accept(new_run())
    claim = await world.claim()
    for step in range(130):
        keep = event_id(claim.epoch, step, 4)
        await world.store(claim, write(claim, step=step + 1, told=told(step, ("delta", "four")), keep=keep))
    last, found, asked = BEGINNING, 0, 0
    while True:
        so_far = await world.transcripts.told(claim.run, after=last)
        found, asked = found + len(so_far.events), asked + 1
        assert so_far.complete_to is not None
        last = so_far.complete_to
        if not so_far.more:
            break
    assert (found, last) == (131, event_id(claim.epoch, 129, 4))
    assert asked <= 4


async def test_only_what_has_moved_since_it_was_known_is_named(world: World) -> None:
    """Hundreds of streams are asked for at once, each second; those where nothing happens cost nothing more."""
    claim = await _in_step_two(world)
    still = (await world.accept(new_run(conversation="http:k:other"))).run
    known = await world.transcripts.moved({claim.run: "", still: "", new_id(): ""})
    assert known.keys() == {claim.run, still}
    assert await world.transcripts.moved(known) == {}
    await world.store(claim, write(claim, step=3, told=told(2, ("notice", "n")), keep=event_id(claim.epoch, 2, 1)))
    moved = await world.transcripts.moved(known)
    assert moved.keys() == {claim.run}
    await world.store(claim, final_write(claim, "hi"))
    ended = await world.transcripts.moved({**known, **moved})
    assert ended.keys() == {claim.run}
    assert await world.transcripts.moved({**known, **ended}) == {}
    assert await world.transcripts.moved({}) == {}


async def test_what_a_run_has_answered_is_there_turn_by_turn(world: World) -> None:
    """Steps are forgotten long before the session is."""
    claim = await with_tools_open(world)
    assert list(await world.transcripts.said(claim.run)) == ["a look"]
    await world.store(claim, write(claim, messages=[results(("c1", "ok"), ("c2", "ok"))], step=2, stage="model"))
    await world.store(claim, final_write(claim))
    *turns, last = await world.transcripts.said(claim.run)
    (ended,) = await world.ended(claim.run)
    assert (turns, last) == (["a look"], ended.outcome["reply"])
    assert list(await world.transcripts.said(new_id())) == []
