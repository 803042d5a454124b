"""What comes with a message is read by plugins before a model sees it: once, and nothing that was read is lost."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from services.agent_worker.actions.desk import Preparing
from services.agent_worker.ports import IncomingFile, NotPrepared, Prepared
from shared.domain.attachment import Attachment
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, new_run
from tests.unit.agent_worker.actions.workroom import Room, Tools, asks

VOICE = Attachment("audio/ogg", b"OggS some words", "voice.ogg", is_voice=True)
CAT = Attachment("image/png", b"\x89PNG\r\n\x1a\n a cat", "cat.png")


@dataclass
class Ears:
    """``Preprocessors`` that hear what is in a file; ``asked`` are the texts it was asked with."""

    fault: Exception | None = None
    waits: asyncio.Event | None = None
    asked: list[str] = field(default_factory=list)

    def wants(self, content_type: str) -> bool:
        return content_type.startswith("audio/")

    async def prepare(self, text: str, files: Sequence[IncomingFile]) -> Prepared:
        self.asked.append(text)
        if self.waits is not None:
            await self.waits.wait()
        if self.fault is not None:
            raise self.fault
        heard = "".join(f"\n[heard {file.data.decode()}, voice {file.is_voice}]" for file in files)
        return Prepared(text + heard, [file.id for file in files])


def listening(room: Room, ears: Ears) -> Room:
    room.desk = replace(room.desk, preparing=Preparing(ears, room.world.prepared))
    return room


def read_by_the_model(room: Room) -> str:
    """The last request, as one text."""
    return str(room.model.requests[-1].messages)


async def test_the_model_reads_what_was_heard_and_history_keeps_it() -> None:
    """The words about the sound give way to what is in it; the picture beside it stays."""
    room, ears = await Room(ModelAnswer("Fine.")).open(), Ears()
    outcome = await listening(room, ears).answer("hi", attachments=[VOICE, CAT])
    assert outcome["reply"] == "Fine."
    asked = read_by_the_model(room)
    assert "hi\\n[heard OggS some words, voice True]" in asked
    assert "can't be heard" not in asked
    assert "[image: cat.png" in asked
    said = room.history()[0]
    assert said["role"] == "user"
    assert [block["type"] for block in said["content"] if not isinstance(block, str)] == ["text", "blob"]


async def test_the_next_message_is_read_with_what_was_heard_before() -> None:
    """What a worker remembers of a conversation is not what it was before it was prepared."""
    room, ears = await Room(ModelAnswer("Fine."), ModelAnswer("Yes.")).open(), Ears()
    await listening(room, ears).answer("hi", attachments=[VOICE])
    await room.answer("did you hear me?")
    assert "[heard OggS some words, voice True]" in read_by_the_model(room)
    assert ears.asked == ["hi"]


async def test_a_message_without_anything_to_read_is_left_alone() -> None:
    """Text is not touched, and neither is a picture for which nobody is there."""
    room, ears = await Room(ModelAnswer("Fine."), ModelAnswer("Fine.")).open(), Ears()
    await listening(room, ears).answer("hi")
    await room.answer("look", attachments=[CAT])
    assert ears.asked == []
    assert "prepared" not in str(room.history())


async def test_an_heir_does_not_read_again_what_was_read() -> None:
    """The worker dies while the model thinks; what was bought before is there."""
    thinks = asyncio.Event()
    room, ears = await Room(thinks).open(), Ears()
    run = await listening(room, ears).accept("hi", attachments=[VOICE])
    serving = asyncio.create_task(room.serve())
    async with asyncio.timeout(5):
        while not room.model.requests:
            await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait({serving})
    heir = listening(await room.heir(ModelAnswer("Fine.")), ears)
    await heir.serve()
    assert (await heir.outcome(run))["reply"] == "Fine."
    assert ears.asked == ["hi"]
    assert "[heard OggS some words, voice True]" in read_by_the_model(heir)


async def test_what_must_be_read_and_cannot_fails_the_message() -> None:
    """Its person is told why, and the next message is answered."""
    room = await Room(ModelAnswer("Fine.")).open()
    listening(room, Ears(NotPrepared("The sound could not be read.")))
    outcome = await room.answer("hi", attachments=[VOICE])
    assert (outcome["state"], outcome["error"]) == ("failed", "The sound could not be read.")
    assert room.model.requests == []
    assert (await room.answer("and now?"))["reply"] == "Fine."


async def test_a_run_that_is_cancelled_listens_no_longer() -> None:
    """Whatever a plugin waits for."""
    room, ears = await Room(ModelAnswer("Fine.")).open(), Ears(waits=asyncio.Event())
    run = await listening(room, ears).accept("hi", attachments=[VOICE])
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        async with asyncio.timeout(5):
            while not ears.asked:
                await asyncio.sleep(0.01)
        await room.cancel(run)
        async with asyncio.timeout(5):
            while not await room.world.inbox.outcomes([run]):
                await asyncio.sleep(0.01)
    assert (await room.outcome(run))["state"] == "cancelled"


async def test_a_steering_message_is_read_before_the_model_reads_it() -> None:
    """It comes in between two turns, and stands in the same words as any other."""
    room = await Room(asks("read"), ModelAnswer("Done."), tools=Tools({"read": "read"})).open()
    ears = Ears()
    listening(room, ears)

    async def send(_: object) -> str:
        await room.send(new_run("also this", when_busy="steer", attachments=[VOICE]))
        return "ok"

    room.tools.doing["read"] = send
    assert (await room.answer("hi"))["reply"] == "Done."
    assert ears.asked == ["also this"]
    assert "also this\\n[heard OggS some words, voice True]" in read_by_the_model(room)
