"""What an agent tells people while it works, under the same claims and in order: of the fake and of Postgres."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from shared.domain.attachment import Attachment
from shared.domain.outgoing_file import OutgoingFile
from shared.domain.run import Address, Claim, Intent, NewRun
from shared.errors import LostClaim
from shared.ids import new_id
from shared.ports.acts import Act, ActAnswer
from tests.builders import CHAT, asked, call, chat_message, ending, new_run, said, settlement, waiting, write
from tests.runs_worlds import World

BOB = "telegram:8"
FIRE = "\N{FIRE}"
ASKED: Mapping[str, Any] = {
    "place": BOB, "name": "Bob", "text": "Tea?", "parts": [], "keyless": True, "most": 3, "capacity": 5, "seconds": 60,
}  # fmt: skip
OWN: Mapping[str, Any] = {**ASKED, "place": None, "name": "anna", "parts": ["Wait.", "A moment."]}


def from_bob(text: str = "hello", number: int = 21) -> NewRun:
    """Whoever has written can be written to; the bridge keeps the number of what was written."""
    return chat_message(
        text,
        address=Address(BOB, "telegram", "person:telegram:8", "Bob"),
        sender="8",
        details={"message_id": str(number)},
    )


async def _bob_has_written(world: World) -> None:
    await world.accept(from_bob())
    claim = await world.claim(BOB)
    await world.store(claim, write(claim, messages=[said("hi")], settle=settlement(claim), ending=ending(claim)))


async def _with_calls_open(world: World, new: NewRun | None = None, *, calls: int = 1) -> Claim:
    """A run whose answer asked for so many messages."""
    new = new or chat_message("tell Bob")
    await world.accept(new)
    claim = await world.claim(new.address.conversation)
    intents = [Intent(index, f"c{index}", "message", "local", "ab" * 32) for index in range(calls)]
    answered = [said("", *(call("message", f"c{index}", target="Bob") for index in range(calls)))]
    step = write(claim, messages=answered, settle=settlement(claim), intents=intents, step=1, stage="tools")
    await world.store(claim, replace(step, keep=f"{claim.epoch}-7"))
    return claim


async def _sends(world: World, claim: Claim, index: int = 0, **fields: Any) -> ActAnswer:
    act = Act(claim.conversation, world.me, claim.epoch, claim.run, 1, index, "message", {**ASKED, **fields})
    return await world.acts.act(act)


async def _reacts(world: World, claim: Claim, index: int = 0, **fields: Any) -> ActAnswer:
    asked = {"place": None, "name": "anna", "emoji": FIRE, "sender": None, "keyless": True, "most": 3, **fields}
    return await world.acts.act(Act(claim.conversation, world.me, claim.epoch, claim.run, 1, index, "react", asked))


async def _runs_of(world: World, conversation: str) -> list[Claim]:
    """What waits in a conversation, taken one after the other and ended."""
    found = []
    while isinstance(claim := await world.ask(conversation), Claim):
        found.append(claim)
        await world.store(claim, write(claim, messages=[said(claim.text)], ending=ending(claim)))
    return found


async def test_words_for_somebody_become_a_run_in_their_line(world: World) -> None:
    """It goes out, and stands in their session, like all that is said there; whoever works there is woken."""
    await _bob_has_written(world)
    claim = await _with_calls_open(world)
    answer = await _sends(world, claim)
    assert (answer.text, answer.error) == ("Sent to Bob: it goes out in its turn.", None)
    assert (answer.wake, answer.nudge) == ((BOB,), ())
    (told,) = await _runs_of(world, BOB)
    assert (told.kind, told.text, told.principal, told.contact) == ("outbound", "Tea?", "person:telegram:8", "Bob")
    assert [row for row in await world.deliveries() if row.run == claim.run] == []


async def test_who_dies_behind_the_act_has_sent_it_once(world: World) -> None:
    """Whoever asks again for it, in the same claim or as the heir, finds the result."""
    await _bob_has_written(world)
    claim = await _with_calls_open(world)
    first = await _sends(world, claim)
    assert await _sends(world, claim) == first
    await world.fence()
    world.me = await world.hire()
    heir = await world.claim(CHAT)
    assert [effect.state for effect in heir.effects] == ["done"]
    assert await _sends(world, heir) == first
    assert len(await _runs_of(world, BOB)) == 1


async def test_who_dies_before_the_act_has_sent_nothing(world: World) -> None:
    """Its heir sends; who was counted as dead does not."""
    await _bob_has_written(world)
    claim = await _with_calls_open(world)
    await world.fence()
    old, world.me = world.me, await world.hire()
    heir = await world.claim(CHAT)
    late = Act(claim.conversation, old, claim.epoch, claim.run, 1, 0, "message", ASKED)
    with pytest.raises(LostClaim):
        await world.acts.act(late)
    assert await _runs_of(world, BOB) == []
    await _sends(world, heir)
    assert [told.text for told in await _runs_of(world, BOB)] == ["Tea?"]


async def test_words_for_whoever_is_answered_go_out_at_once(world: World) -> None:
    """A run of its own would wait behind the one that sends it; the reply comes behind them."""
    claim = await _with_calls_open(world)
    answer = await _sends(world, claim, **OWN)
    assert answer.text == "Sent to anna: it goes out now, before your reply."
    assert (answer.wake, answer.nudge) == ((), ("telegram",))
    assert [(row.part, row.text) for row in await world.deliveries()] == [(1, "Wait."), (2, "A moment.")]
    end = replace(ending(claim), parts=["Done."])
    await world.store(claim, write(claim, messages=[said("Done.")], ending=end))
    assert [(row.run, row.part, row.text) for row in await world.deliveries()][2:] == [(claim.run, 3, "Done.")]


async def test_where_nobody_carries_words_out_that_is_said(world: World) -> None:
    """Who fetches the reply reads nothing before it."""
    claim = await _with_calls_open(world, new_run("hello"))
    answer = await _sends(world, claim, **OWN)
    assert answer.error == (
        "nothing was sent: you answer over http, where nobody carries words out before your reply is fetched. Say it "
        "in your reply"
    )
    assert await world.deliveries() == []


async def test_who_has_never_written_can_not_be_written_to(world: World) -> None:
    """A bot must not begin a chat, and Telegram would refuse it."""
    claim = await _with_calls_open(world)
    answer = await _sends(world, claim)
    assert answer.error == ("nothing was sent: Bob has not written to you yet, and only whoever has can be written to")


@pytest.mark.parametrize(("principal", "keyless", "is_reached"), [
    ("key:default", True, True), ("person:telegram:7", True, True), ("key:ann", False, False),
])  # fmt: skip
async def test_a_message_goes_where_its_principal_may_reach(
    world: World, *, principal: str, keyless: bool, is_reached: bool
) -> None:
    """Also if a name would lead further; to whoever may not, nobody is there."""
    await _bob_has_written(world)
    new = new_run("hello")
    claim = await _with_calls_open(world, replace(new, address=replace(new.address, principal=principal)))
    answer = await _sends(world, claim, keyless=keyless)
    assert (answer.error is None) is is_reached
    assert len(await _runs_of(world, BOB)) == is_reached


async def test_nobody_reaches_what_belongs_to_a_key_but_that_key(world: World) -> None:
    """The operator has no more business there than others."""
    place = "http:ann:x"
    await world.accept(new_run(conversation=place, address=Address(place, "http", "key:ann", "x")))
    claim = await _with_calls_open(world)
    assert "has not written" in ((await _sends(world, claim, place=place)).error or "")


async def test_a_run_sends_only_so_many(world: World) -> None:
    """A model that goes round in circles must not fill somebody's chat; what was refused does not count."""
    await _bob_has_written(world)
    claim = await _with_calls_open(world, calls=5)
    answers = [await _sends(world, claim, 0, place="telegram:404")]
    answers += [await _sends(world, claim, index) for index in range(1, 5)]
    assert [answer.error for answer in answers[1:]] == [
        None, None, None, "this run has told people something 3 times already, and no more may be"
    ]  # fmt: skip


async def test_a_line_that_is_full_takes_no_more(world: World) -> None:
    """As for whoever writes there; the model reads why, and nothing was sent."""
    await _bob_has_written(world)
    await world.accept(from_bob("one"))
    claim = await _with_calls_open(world)
    answer = await _sends(world, claim, capacity=1)
    assert answer.error == "nothing was sent: too much waits to be told to Bob already"
    assert [told.kind for told in await _runs_of(world, BOB)] == ["message"]


async def test_two_who_write_to_each_other_at_once_both_arrive(world: World) -> None:
    """Each holds its own line and asks for the other's."""
    await _bob_has_written(world)
    one = await _with_calls_open(world)
    other = await _with_calls_open(world, from_bob("tell Anna"))
    answers = await asyncio.gather(_sends(world, one), _sends(world, other, place=CHAT, name="anna", text="Yes."))
    assert [answer.error for answer in answers] == [None, None]
    for claim in (one, other):
        await world.store(claim, write(claim, messages=[said("ok")], ending=ending(claim)))
    assert [told.text for told in await _runs_of(world, BOB)] == ["Tea?"]
    assert [told.text for told in await _runs_of(world, CHAT)] == ["Yes."]


async def test_who_is_asked_something_is_told_nothing_else_before_the_answer(world: World) -> None:
    """Nothing overtakes in a line; once the question is answered, and its run has ended, the message comes."""
    await world.accept(from_bob("rm"))
    asking = await world.claim(BOB)
    question = replace(asked(), tool="exec")
    step = write(asking, messages=[said("", call("exec", "c0"))], settle=settlement(asking), step=1, stage="tools")
    await world.store(asking, replace(step, waiting=waiting(question)))
    claim = await _with_calls_open(world)
    assert (await _sends(world, claim)).error is None
    assert await world.ask(BOB) == "nothing"
    await world.inbox.decide(question.id, allows=False, answer="no", by="8")
    first, second = await _runs_of(world, BOB)
    assert (first.run, second.text) == (asking.run, "Tea?")


async def test_a_reaction_goes_to_the_last_message_of_whoever_is_answered(world: World) -> None:
    """Before the reply, and once, whoever asks for it again; a message of somebody else is not meant."""
    claim = await _with_calls_open(world, chat_message("look", sender="1", details={"message_id": "11"}))
    await world.accept(chat_message("and?", sender="2", details={"message_id": "12"}))
    answer = await _reacts(world, claim, sender="1")
    assert answer.text == f"Reacted with {FIRE} to the last message of anna."
    assert (answer.wake, answer.nudge) == ((), ("telegram",))
    assert await _reacts(world, claim, sender="1") == answer
    (row,) = await world.deliveries()
    assert (row.run, row.part, row.kind, row.text) == (claim.run, 1, "reaction", "")
    assert row.reaction == {"message": "11", "emoji": FIRE}


async def test_without_a_sender_the_last_message_of_all_is_meant(world: World) -> None:
    """What came while the agent was at work counts, too."""
    claim = await _with_calls_open(world, chat_message("look", sender="1", details={"message_id": "11"}))
    await world.accept(chat_message("and?", sender="2", details={"message_id": "12"}))
    await _reacts(world, claim)
    assert [row.reaction for row in await world.deliveries()] == [{"message": "12", "emoji": FIRE}]


async def test_a_reaction_to_a_contact_goes_to_their_chat(world: World) -> None:
    """Beside what is said there: no run of theirs is made for it."""
    await _bob_has_written(world)
    claim = await _with_calls_open(world)
    answer = await _reacts(world, claim, place=BOB, name="Bob")
    assert answer.nudge == ("telegram",)
    (row,) = [row for row in await world.deliveries() if row.reaction]
    assert (row.run, row.ordinal, row.reaction) == (None, 1, {"message": "21", "emoji": FIRE})
    assert await world.ask(BOB) == "nothing"


@pytest.mark.parametrize("fields", [
    {}, {"place": BOB, "name": "Bob", "sender": "9"}, {"place": "telegram:404"}, {"place": BOB, "keyless": False},
])  # fmt: skip
async def test_where_no_message_is_remembered_that_is_said(world: World, fields: Mapping[str, Any]) -> None:
    """Nobody has written, or what came kept no number, or it is out of reach: nothing goes out."""
    await _bob_has_written(world)
    claim = await _with_calls_open(world)
    before = await world.deliveries()
    name = fields.get("name", "anna")
    answer = await _reacts(world, claim, **fields)
    assert answer.error == f"no message of {name} is remembered that could be reacted to"
    assert await world.deliveries() == before


async def test_over_http_there_are_no_reactions(world: World) -> None:
    """There is nothing that they could stand below."""
    claim = await _with_calls_open(world, new_run("hello"))
    assert (await _reacts(world, claim)).error == "there are no reactions over http"


async def test_reactions_count_as_messages_do(world: World) -> None:
    """One bound for all that a run tells people."""
    claim = await _with_calls_open(world, chat_message("look", details={"message_id": "11"}), calls=3)
    await _reacts(world, claim, 0, most=2)
    await _sends(world, claim, 1, **{**OWN, "most": 2})
    answer = await _reacts(world, claim, 2, most=2)
    assert answer.error == "this run has told people something 2 times already, and no more may be"


def _block(blob: UUID) -> Mapping[str, Any]:
    return {"type": "blob", "id": str(blob), "content_type": "image/png", "filename": "cat.png", "size": 5,
            "text": "[image: cat.png, image/png, 5 bytes]"}  # fmt: skip


async def test_files_go_with_the_words_and_belong_to_the_run_that_brings_them(world: World) -> None:
    """As they were when they were sent: whoever was counted as dead and keeps another one later changes nothing."""
    await _bob_has_written(world)
    claim, blob = await _with_calls_open(world), new_id()
    await world.blobs.keep(blob, claim.run, Attachment("image/png", b"a cat", "cat.png"))
    await _sends(world, claim, blocks=[_block(blob)])
    await world.blobs.keep(blob, claim.run, Attachment("image/png", b"too late", "cat.png"))
    (told,) = await _runs_of(world, BOB)
    assert [(each["id"], each["filename"]) for each in told.attachments] == [(str(blob), "cat.png")]
    assert await world.blobs.load([blob]) == {blob: b"a cat"}


async def test_files_for_whoever_is_answered_are_deliveries_at_once(world: World) -> None:
    """In the order in which they were sent, and as they were then."""
    claim, blob = await _with_calls_open(world), new_id()
    file = OutgoingFile(blob, "cat.png", "image/png", 5, "photo", "Look.")
    await world.blobs.keep(blob, claim.run, Attachment("image/png", b"a cat", "cat.png"))
    await _sends(world, claim, **{**OWN, "parts": ["Wait.", file.body()], "blocks": [_block(blob)]})
    await world.blobs.keep(blob, claim.run, Attachment("image/png", b"too late", "cat.png"))
    assert [(row.part, row.text, row.file) for row in await world.deliveries()] == [
        (1, "Wait.", None), (2, "Look.", file.document())
    ]  # fmt: skip
    assert await world.blobs.load([blob]) == {blob: b"a cat"}
