"""Attachments on their way to the model."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from services.agent_worker.actions.refused_images import RefusedImages
from services.agent_worker.actions.remember_history import ROW_BYTES
from services.agent_worker.rules.images import REFUSED
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.domain.attachment import Attachment, blob_id
from shared.errors import ModelRejected
from shared.ports.model import ModelAnswer, ModelRequest
from tests.builders import CONVERSATION
from tests.unit.agent_worker.actions.workroom import SPEC, Room, asks, with_manner

PNG = b"\x89PNG\r\n\x1a\n" + b"\xfe" * 50_000
CAT = Attachment("image/png", PNG, "cat.png")
NOTES = Attachment("text/plain", b"buy milk", "notes.txt")
NO = ModelRejected("no", of_content=True)
TOO_LONG = ModelRejected("too long", of_content=True)
VOICE = Attachment("audio/ogg", b"OggS", is_voice=True)
LINE = "[image: cat.png, image/png, 50 kB]"
SHOWN = {"type": "image", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}


class CountedBlobs(InMemoryBlobs):
    """Notes what was asked for."""

    def __init__(self, room: Room) -> None:
        super().__init__(room.world.tables)
        self.asked: list[UUID] = []

    async def load(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes]:
        self.asked += ids
        return await super().load(ids)


def told(request: ModelRequest) -> list[Any]:
    """The blocks of the messages that brought attachments; the stamp of the first is left out."""
    blocks = [message["content"] for message in request.messages if message["role"] == "user"]
    return [block for content in blocks if not isinstance(content, str) for block in content[1:]]


async def test_what_comes_with_a_message_is_shown_with_it() -> None:
    """In the order in which it came: text, image, what a document says, and a word about the rest."""
    room = await Room(ModelAnswer("a cat")).open()
    await room.answer("look", attachments=[CAT, NOTES, VOICE])
    assert told(room.model.requests[0]) == [
        {"type": "text", "text": "look"},
        {"type": "text", "text": LINE},
        SHOWN,
        {"type": "text", "text": "[document: notes.txt, text/plain, 8 bytes]\nbuy milk"},
        {"type": "text", "text": "[voice message that can't be heard yet: audio/ogg, 4 bytes]"},
    ]


async def test_an_image_that_the_provider_refuses_is_left_out_and_the_rest_is_answered() -> None:
    """It may be cut off or too wide for this provider; the person is to hear something, and later messages work."""
    room = await Room(NO, asks("read"), ModelAnswer("I can't see it"), ModelAnswer("well"), ModelAnswer("a cat")).open()
    outcome = await room.answer("look", attachments=[CAT, NOTES])
    assert outcome["reply"] == "I can't see it"
    assert await room.every_call_is_booked()
    assert next(row.cost for row in await room.world.booked()) == 0
    seen, blind, still = (told(request) for request in room.model.requests)
    assert SHOWN in seen
    refused = {"type": "text", "text": REFUSED}
    assert blind == still == [refused if block == SHOWN else block for block in seen]

    assert (await room.answer("and now?"))["reply"] == "well"
    assert told(room.model.requests[3]) == blind  # it was refused once, and is not tried again with each message
    room.desk = replace(room.desk, refused=RefusedImages())
    await room.answer("and by somebody else?")
    assert told(room.model.requests[4]) == seen


async def test_a_refusal_without_images_is_final() -> None:
    """Asked again without them, and refused again, it was something else."""
    for attachments in ([CAT], [NOTES]):
        room = await Room(TOO_LONG, TOO_LONG).open()
        outcome = await room.answer("look", attachments=attachments)
        assert outcome["error"] == "too long"
        assert len(room.model.requests) == (2 if CAT in attachments else 1)
        cat = str(blob_id(UUID(str(outcome["run_id"])), 0))
        assert not room.desk.refused.among(SPEC.model, [cat])


async def test_a_refusal_of_who_asks_is_not_laid_on_the_images() -> None:
    """A wrong key or a model that is not there: without the images it would be refused as well."""
    room = await Room(ModelRejected("wrong key")).open()
    assert (await room.answer("look", attachments=[CAT]))["error"] == "wrong key"
    assert len(room.model.requests) == 1


def test_the_newest_refusals_are_remembered() -> None:
    """Each of its own model, and not without end."""
    refused = RefusedImages(most=2)
    refused.add("a", ["1", "2"])
    refused.add("b", ["3"])
    assert refused.among("a", ["1", "2", "3"]) == {"2"}
    assert refused.among("b", ["2", "3"]) == {"3"}


async def test_an_image_is_loaded_once_for_all_turns_of_a_run() -> None:
    """A run of fifty turns must not read fifty times what it has."""
    room = await Room(asks("read"), ModelAnswer("a cat"), ModelAnswer("still a cat")).open()
    blobs = CountedBlobs(room)
    room.desk = replace(room.desk, blobs=blobs)
    run = (await room.answer("look", attachments=[CAT]))["run_id"]
    assert [told(request)[2] for request in room.model.requests] == [SHOWN, SHOWN]
    assert blobs.asked == [blob_id(UUID(str(run)), 0)]

    await room.answer("and now?")
    assert told(room.model.requests[2])[2] == SHOWN
    assert len(blobs.asked) == 2


async def test_the_history_that_is_remembered_has_no_bytes_of_it() -> None:
    """A worker remembers thousands of histories."""
    room = await Room(ModelAnswer("a cat"), ModelAnswer("no more")).open()
    await room.answer("look", attachments=[CAT])
    held = room.histories.lend(CONVERSATION)
    assert held is not None
    assert held.size < 2 * ROW_BYTES + 2000
    assert "image" not in {block["type"] for block in room.history()[0]["content"] if isinstance(block, dict)}  # type: ignore[typeddict-item]


async def test_a_model_that_does_not_see_reads_a_line() -> None:
    """And nothing is loaded for it."""
    room = await Room(ModelAnswer("I can't see it"), spec=replace(SPEC, supports_vision=False)).open()
    blobs = CountedBlobs(room)
    room.desk = replace(room.desk, blobs=blobs)
    await room.answer("look", attachments=[CAT])
    assert told(room.model.requests[0]) == [{"type": "text", "text": "look"}, {"type": "text", "text": LINE}]
    assert blobs.asked == []


@pytest.mark.parametrize("gone", [True, False])
async def test_an_image_that_is_gone_or_too_large_is_a_line(gone: bool) -> None:
    """What was said of it stays; the conversation goes on."""
    manner = with_manner() if gone else with_manner(largest_image=len(PNG) - 1)
    room = await Room(ModelAnswer("a cat"), ModelAnswer("I remember"), manner=manner).open()
    await room.answer("look", attachments=[CAT])
    if gone:
        room.world.tables.blobs.clear()
        await room.answer("and now?")
    assert told(room.model.requests[-1]) == [{"type": "text", "text": "look"}, {"type": "text", "text": LINE}]


async def test_the_guess_of_a_call_that_broke_off_does_not_count_the_bytes() -> None:
    """An image is not read like text, and a guess of millions of tokens would use a cap up."""
    room = await Room(RuntimeError("broken"), ModelAnswer("x")).open()
    await room.answer("look", attachments=[CAT])
    (booked,) = room.world.tables.costs.values()
    assert 0 < booked.usage.input < 5000
