"""Attachments stand with their message, by reference, and are stored once; asked of the fake and of Postgres."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from shared.domain.attachment import Attachment, ReadableText, blob_id
from shared.domain.run import Route, message_document
from shared.errors import Conflict, Full
from shared.ids import new_id
from tests.builders import (
    CHAT,
    CONVERSATION,
    ROUTE,
    ROUTES,
    bodies,
    chat_message,
    final_write,
    key,
    new_run,
    results,
    said,
    settlement,
    waiting,
    write,
)
from tests.runs_worlds import World, killed, with_question, with_tools_open

CAT = Attachment("image/png", b"\x89PNG\r\n\x1a\n a cat \0\xff" * 100, "cat.png")
NOTES = Attachment("text/markdown", "# grüße\n\\u0000 'and' so on".encode(), "notes.md")
VISION: dict[str, Route] = {**ROUTES, "image": replace(ROUTE, model="vision")}


def words(content: Any) -> list[str]:
    """What each block of a message says."""
    return [block["text"] for block in content]


async def loaded(world: World, run: UUID, count: int = 3) -> list[bytes]:
    """What is stored of a run's attachments, in their order."""
    ids = [blob_id(run, position) for position in range(count)]
    found = await world.blobs.load(ids)
    return [found[id] for id in ids if id in found]


async def test_a_claim_brings_references_and_the_bytes_are_read_apart(world: World) -> None:
    """A history is read with every message; what is large must not be in it."""
    new = new_run("look", attachments=[CAT, NOTES])
    await world.accept(new)
    claim = await world.claim()

    (body,) = bodies(claim)
    text, cat, notes = body["content"]
    assert text == {"type": "text", "text": "look"}
    assert cat == {
        "type": "blob",
        "id": str(blob_id(new.id, 0)),
        "content_type": "image/png",
        "filename": "cat.png",
        "size": 1700,
        "text": "[image: cat.png, image/png, 2 kB]",
    }
    assert notes["text"] == "[document: notes.md, text/markdown, 28 bytes]\n# grüße\n\\u0000 'and' so on"
    assert claim.text == "look"
    assert await world.blobs.load([UUID(cat["id"]), UUID(notes["id"]), new_id()]) == {
        blob_id(new.id, 0): CAT.data,
        blob_id(new.id, 1): NOTES.data,
    }
    assert await world.blobs.load([]) == {}


async def test_only_as_much_of_a_document_is_read_as_was_asked_for(world: World) -> None:
    """A context is bounded; the whole file is kept all the same."""
    new = new_run(attachments=[NOTES], readable=ReadableText(3))
    await world.accept(new)
    (body,) = bodies(await world.claim())
    assert words(body["content"])[1].splitlines()[1:] == ["# g", "[... the rest of the document is not shown ...]"]
    assert await loaded(world, new.id) == [NOTES.data]


async def test_the_same_message_stores_its_attachments_once(world: World) -> None:
    """Answers to an accept get lost, and then it is sent again, also while the first try is on its way."""
    await world.accept(new_run("before"))
    new = new_run("look", attachments=[CAT])
    first = await asyncio.gather(*(world.accept(new) for _ in range(5)))
    assert {(one.run, one.ordinal) for one in first} == {(new.id, 2)}
    assert await loaded(world, new.id) == [CAT.data]

    keyed = new_run("look", attachments=[CAT], idempotency=key())
    await world.accept(keyed)
    again = new_run("look", attachments=[CAT], idempotency=key())
    assert (await world.accept(again)).run == keyed.id
    assert await loaded(world, again.id) == []


async def test_a_refused_message_leaves_no_attachment(world: World) -> None:
    """What nobody accepted belongs to nobody, and nothing would ever throw it away."""
    await world.accept(new_run(idempotency=key()))
    full = new_run(attachments=[CAT], capacity=1)
    other = new_run(attachments=[CAT], idempotency=key(body=b"other"))
    busy = new_run(attachments=[CAT], when_busy="reject")
    for refused, fault in ((full, Full), (other, Conflict), (busy, Conflict)):
        with pytest.raises(fault):
            await world.accept(refused)
        assert await loaded(world, refused.id) == []


async def test_merged_messages_keep_what_came_with_each(world: World) -> None:
    """ "What is this?" and the picture after it are one question."""
    for text, files in (("what", ()), ("is this", (CAT,)), ("and this?", (NOTES,)), ("quick", ())):
        await world.accept(chat_message(text, attachments=files))
    (body,) = bodies(await world.claim(CHAT))
    told = [line.split(":")[0] for line in words(body["content"])]
    assert told == ["what", "is this", "[image", "and this?", "[document", "quick"]


async def test_a_steering_message_is_taken_in_with_its_attachments(world: World) -> None:
    """It is shown in the turn after it, like its text."""
    claim = await with_tools_open(world)
    new = new_run("rather this", attachments=[CAT], when_busy="steer")
    await world.accept(new)
    round_ = write(claim, messages=[results(("c1", "ok"), ("c2", "ok"))], step=2, stage="model", absorb=True)
    stored = await world.written(claim, round_)

    (absorbed,) = stored.absorbed
    assert absorbed["role"] == "user"
    assert words(absorbed["content"]) == ["rather this", "[image: cat.png, image/png, 2 kB]"]
    assert await world.messages(claim.session.id) == [*(await world.messages(claim.session.id))[:-1], dict(absorbed)]
    assert (await world.written(claim, round_)).absorbed == stored.absorbed
    assert await loaded(world, new.id) == [CAT.data]


async def test_what_comes_with_an_answer_is_shown_when_the_run_goes_on(world: World) -> None:
    """ "No, take this one instead": the text decides, and the picture must not be lost."""
    asked = await with_question(world)
    answer = new_run("no, take this one", attachments=[CAT])
    accepted = await world.accept(answer)
    assert (accepted.state, accepted.into) == ("merged", asked.run)
    assert (await world.accept(answer)).into == asked.run

    claim = await world.claim()
    assert claim.approvals[0].answer == "no, take this one"
    round_ = write(claim, messages=[results(("c0", "Error: no"))], step=2, stage="model", absorb=True)
    stored = await world.written(claim, round_)
    (absorbed,) = stored.absorbed
    assert absorbed["role"] == "user"
    assert words(absorbed["content"]) == ["no, take this one", "[image: cat.png, image/png, 2 kB]"]
    assert (await world.written(claim, round_)).absorbed == stored.absorbed
    again = write(claim, messages=[results()], step=3, stage="model", absorb=True)
    assert list((await world.written(claim, again)).absorbed) == []


async def test_an_answer_without_attachments_is_not_said_twice(world: World) -> None:
    """Its text stands in the result of the call that it decided."""
    await with_question(world)
    await world.accept(new_run("no"))
    claim = await world.claim()
    round_ = write(claim, messages=[results(("c0", "Error: no"))], step=2, stage="model", absorb=True)
    assert list((await world.written(claim, round_)).absorbed) == []


async def test_an_image_goes_to_the_model_for_images(world: World) -> None:
    """Where one is configured; the model of the channel may not see at all."""
    await world.accept(new_run(attachments=[CAT]))
    claim = await world.claim(routes=VISION)
    assert claim.route.model == "vision"
    await world.fence(world.me)
    world.me = await world.hire()
    again = await world.claim(routes=VISION)
    assert again.route.model == "vision"
    await world.store(again, final_write(again))

    await world.accept(new_run(attachments=[NOTES]))
    assert (await world.claim(routes=VISION)).route.model == ROUTE.model


async def test_a_message_that_is_tried_again_takes_its_attachments_over(world: World) -> None:
    """The first run is forgotten one day, and what came with it would go with it."""
    new = new_run("look", attachments=[CAT])
    await world.accept(new)
    await killed(world, CONVERSATION, 4)
    retry = new_run("look", details={"attachments": message_document(new)["attachments"]}, retry_of=new.id)
    await world.accept(retry)

    claim = await world.claim()
    assert claim.run == retry.id
    block = bodies(claim)[-1]["content"][1]
    assert await world.blobs.load([UUID(block["id"])]) == {blob_id(new.id, 0): CAT.data}


async def test_a_reset_leaves_what_stands_in_line_whole(world: World) -> None:
    """It closes what was said; what was accepted behind it is answered in the next session."""
    await world.accept(new_run("first"))
    first = await world.claim()
    new = new_run("look", attachments=[CAT])
    await world.accept(new)
    assert await world.inbox.reset(CONVERSATION, new_id(), source="http", sender="anna") is not None

    claim = await world.claim()
    assert claim.session.id != first.session.id
    (body,) = bodies(claim)
    assert words(body["content"]) == ["look", "[image: cat.png, image/png, 2 kB]"]


async def test_a_run_that_waits_again_still_shows_what_came_with_its_answers(world: World) -> None:
    """One of two calls was answered with a picture; the run asks on before the round is stored."""
    asked = await with_question(world)
    await world.accept(new_run("yes", attachments=[CAT]))
    claim = await world.claim()
    await world.store(claim, write(claim, waiting=waiting()))
    await world.accept(new_run("yes", attachments=[NOTES]))
    claim = await world.claim()
    assert claim.run == asked.run
    round_ = write(
        claim, messages=[results(("c0", "ok"))], settle=settlement(claim), step=2, stage="model", absorb=True
    )
    taken = (await world.written(claim, round_)).absorbed
    assert [words(one["content"])[1].split(":")[0] for one in taken if one["role"] == "user"] == ["[image", "[document"]
    assert await world.store(claim, final_write(claim, messages=[said("done")])) is False
