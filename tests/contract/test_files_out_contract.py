"""Files that go out stand in deliveries by reference, behind the words they come with: of the fake and of Postgres."""

from dataclasses import replace

from shared.domain.attachment import Attachment, blob_id
from shared.domain.outgoing_file import OutgoingFile, as_block, outgoing
from shared.domain.run import UNDERSTANDS, NewRun
from shared.ids import new_id
from tests.builders import CHAT, chat_message, ending, said, write
from tests.contract.test_messages_contract import BOB, _bob_has_written, _sends, _with_calls_open
from tests.runs_worlds import World, killed

CAT = Attachment("image/png", b"\x89PNG\r\n\x1a\n a cat \0\xff" * 100, "cat.png")
NOTES = Attachment("text/markdown", b"# notes", "notes.md")


def sent(text: str = "Look.", *files: Attachment) -> NewRun:
    """What a person is told, with files."""
    return chat_message(text, kind="outbound", source="http", attachments=files or (CAT, NOTES))


async def _ended(world: World, *, parts: tuple[str, ...] = ("Look.",)) -> list[OutgoingFile]:
    claim = await world.claim(CHAT)
    files = [outgoing(block, is_voice=False) for block in claim.attachments]
    end = replace(ending(claim), parts=parts, files=files)
    await world.store(claim, write(claim, messages=[said("Look.")], ending=end))
    return files


async def test_a_claim_of_what_goes_out_brings_its_files_by_reference(world: World) -> None:
    """Whoever carries it out makes deliveries of them; the bytes stay where they are."""
    new = sent()
    await world.accept(new)
    claim = await world.claim(CHAT)
    assert [(block["id"], block["filename"], block["size"]) for block in claim.attachments] == [
        (str(blob_id(new.id, 0)), "cat.png", 1700),
        (str(blob_id(new.id, 1)), "notes.md", 7),
    ]
    assert await world.messages(claim.session.id) == []  # nobody has asked anything


async def test_the_words_go_first_and_each_file_is_a_delivery_of_its_own(world: World) -> None:
    """In the order in which they came, made where the run ends."""
    new = sent()
    await world.accept(new)
    files = await _ended(world)
    assert [(row.run, row.part, row.kind, row.text, row.file) for row in await world.deliveries()] == [
        (new.id, 1, "reply", "Look.", None),
        (new.id, 2, "reply", "", files[0].document()),
        (new.id, 3, "reply", "", files[1].document()),
    ]
    assert [file.shown_as for file in files] == ["photo", "document"]


async def test_files_go_out_without_a_word_too(world: World) -> None:
    """A picture may be all there is to say."""
    await world.accept(sent("", CAT))
    (file,) = await _ended(world, parts=())
    assert [(row.text, row.file) for row in await world.deliveries()] == [("", file.document())]


async def test_whoever_takes_over_sends_them_once(world: World) -> None:
    """No delivery stands before the end, and no second one behind it."""
    await world.accept(sent())
    await world.claim(CHAT)
    await world.fence()
    world.me = await world.hire()
    await _ended(world)
    assert len(await world.deliveries()) == 3


async def test_of_what_fails_nothing_goes_out(world: World) -> None:
    """A file without the words it belongs to would be a riddle."""
    await world.accept(sent())
    await world.claim(CHAT)
    await world.fence()
    await killed(world, CHAT, 3)
    assert await world.deliveries() == []


async def test_code_that_would_send_the_words_alone_does_not_take_it(world: World) -> None:
    """The release before knows no files that go out."""
    new = sent()
    await world.accept(new)
    assert await world.needs(new.id) == UNDERSTANDS > 4


async def test_files_that_an_agent_sends_to_others_go_with_its_message(world: World) -> None:
    """They are the other run's from then on: they are kept as long as that."""
    await _bob_has_written(world)
    claim = await _with_calls_open(world)
    file = OutgoingFile(new_id(), "cat.png", "image/png", len(CAT.data), "photo")
    await world.blobs.keep(file.blob, claim.run, CAT)
    assert (await _sends(world, claim, text="", blocks=[as_block(file)])).error is None
    theirs = await world.claim(BOB, worker=await world.hire())
    assert (theirs.kind, theirs.text, list(theirs.attachments)) == ("outbound", "", [as_block(file)])
    assert outgoing(theirs.attachments[0], is_voice=False) == file
    assert await world.blobs.load([file.blob]) == {file.blob: CAT.data}
    assert await world.needs(theirs.run) > 4


async def test_a_file_for_whoever_is_answered_goes_out_at_once(world: World) -> None:
    """In its place among the words."""
    claim = await _with_calls_open(world)
    file = OutgoingFile(new_id(), "cat.png", "image/png", len(CAT.data), "photo")
    await world.blobs.keep(file.blob, claim.run, CAT)
    await _sends(world, claim, place=None, text="Look.", parts=["Look.", file.body()])
    assert [(row.part, row.text, row.file) for row in await world.deliveries()] == [
        (1, "Look.", None), (2, "", file.document())
    ]  # fmt: skip
