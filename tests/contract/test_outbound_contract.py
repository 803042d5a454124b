"""What a person is told without having asked stands in their line and costs nothing: of the fake and of Postgres."""

from dataclasses import replace

import pytest

from shared.domain.run import UNDERSTANDS, Claim
from tests.builders import CHAT, bodies, chat_message, ending, said, write
from tests.runs_worlds import World, killed


async def _ended(world: World, claim: Claim) -> None:
    words = claim.text
    await world.store(claim, write(claim, messages=[said(words)], ending=replace(ending(claim), parts=[words])))


async def test_it_is_said_in_the_session_and_goes_out_once_for_nothing(world: World) -> None:
    """The agent knows afterwards what its person was told; nobody asked a question, and no model was called."""
    new = chat_message("The tea is ready.", kind="outbound", source="http")
    first = await world.accept(new)
    assert (await world.accept(new)).ordinal == first.ordinal
    claim = await world.claim(CHAT)
    assert (claim.kind, claim.text, bodies(claim)) == ("outbound", "The tea is ready.", [])
    assert await world.open_reservations() == set()
    await _ended(world, claim)
    assert await world.messages(claim.session.id) == [said("The tea is ready.")]
    assert [(row.run, row.text) for row in await world.deliveries()] == [(new.id, "The tea is ready.")]
    assert await world.booked() == []


async def test_it_keeps_its_place_between_two_messages(world: World) -> None:
    """What is written before and behind it are two questions, and the second knows what was told between them."""
    for new in (
        chat_message("is there tea?"), chat_message("Soon.", kind="outbound", source="http"), chat_message("thanks")
    ):  # fmt: skip
        await world.accept(new)
    first = await world.claim(CHAT)
    assert first.text == "is there tea?"
    await world.store(first, write(first, messages=[said("I shall look.")], ending=ending(first)))
    await _ended(world, await world.claim(CHAT))
    last = await world.claim(CHAT)
    assert [body["role"] for body in bodies(last)] == ["user", "assistant", "assistant", "user"]


async def test_code_that_would_ask_a_model_about_it_does_not_take_it(world: World) -> None:
    """The release before knows no such run."""
    new = chat_message("The tea is ready.", kind="outbound", source="http")
    await world.accept(new)
    assert await world.needs(new.id) == UNDERSTANDS


@pytest.mark.parametrize("times", [1, 2])
async def test_whoever_takes_over_says_it_in_the_dead_ones_place(world: World, times: int) -> None:
    """Between accept and end it is neither lost nor doubled."""
    new = chat_message("The tea is ready.", kind="outbound", source="http")
    await world.accept(new)
    for _ in range(times):
        await world.claim(CHAT)
        await world.fence()
        world.me = await world.hire()
    await _ended(world, await world.claim(CHAT))
    assert [row.text for row in await world.deliveries()] == ["The tea is ready."]
    assert await world.open_reservations() == set()


async def test_its_person_hears_nothing_of_one_that_fails(world: World) -> None:
    """Why it could not be sent is for whoever sent it."""
    new = chat_message("The tea is ready.", kind="outbound", source="http")
    await world.accept(new)
    await world.claim(CHAT)
    await world.fence()
    await killed(world, CHAT, 3)
    (finished,) = await world.ended(new.id)
    assert finished.outcome["state"] == "dead"
    assert await world.deliveries() == []
