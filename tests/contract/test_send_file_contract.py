"""A file that an agent sends goes out with its reply, once and whatever dies: of the fake and of Postgres."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from shared.domain.attachment import Attachment
from shared.domain.outgoing_file import OutgoingFile
from shared.domain.run import Claim, Intent, RunState
from shared.errors import LostClaim, TryLater
from shared.ids import new_id
from shared.ports.acts import Act, ActAnswer
from shared.ports.reply_files import PIECE, ReplyFile
from tests.builders import CHAT, call, chat_message, ending, new_run, results, said, settlement, write
from tests.contract.test_children_contract import asking, spawn, the_child, with_spawns_open
from tests.runs_worlds import World, killed

CAT = Attachment("image/png", b"\x89PNG\r\n\x1a\n a cat \0\xff", "cat.png")


async def _with_calls_open(world: World, *, calls: int = 1, conversation: str | None = CHAT) -> Claim:
    """A run whose answer asked for files to be sent."""
    await world.accept(chat_message("send me the cat") if conversation else new_run("send me the cat"))
    claim = await (world.claim(conversation) if conversation else world.claim())
    intents = [Intent(index, f"c{index}", "send_file", "local", "ab" * 32) for index in range(calls)]
    asked = [said("", *(call("send_file", f"c{index}", file_path="cat.png") for index in range(calls)))]
    step = write(claim, messages=asked, settle=settlement(claim), intents=intents, step=1, stage="tools")
    await world.store(claim, replace(step, keep=f"{claim.epoch}-7"))
    return claim


def a_file(blob: UUID, name: str = "cat.png") -> OutgoingFile:
    return OutgoingFile(blob, name, "image/png", len(CAT.data), "photo")


async def _sends(world: World, claim: Claim, file: OutgoingFile, *, index: int = 0) -> ActAnswer:
    act = Act(claim.conversation, world.me, claim.epoch, claim.run, 1, index, "send_file", file.document())
    return await world.acts.act(act)


async def _ends(world: World, claim: Claim, *, state: RunState = "done") -> None:
    end = replace(ending(claim), state=state, parts=["Here it is."] if state == "done" else ())
    answered = [results(("c0", "x")), said("Here it is.")]
    await world.store(claim, write(claim, messages=answered, ending=end))


async def _outcome(world: World, run: UUID) -> dict[str, Any]:
    (finished,) = await world.ended(run)
    return dict(finished.outcome)


async def test_it_goes_out_behind_the_reply_and_stands_in_the_outcome(world: World) -> None:
    """One delivery for each, in the order in which they were sent; the bytes are fetched by their number."""
    claim = await _with_calls_open(world, calls=2)
    files = [a_file(new_id()), a_file(new_id(), "notes.md")]
    for index, file in enumerate(files):
        await world.blobs.keep(file.blob, claim.run, CAT)
        answer = await _sends(world, claim, file, index=index)
        assert answer.text == f"Attached {file.name}: it goes out with your reply."
    assert await world.deliveries() == []
    assert await world.reply_files.file(claim.run, 1) is None  # there is no reply yet
    await _ends(world, claim)
    assert [(row.part, row.text, row.file) for row in await world.deliveries()] == [
        (1, "Here it is.", None), (2, "", files[0].document()), (3, "", files[1].document())
    ]  # fmt: skip
    assert (await _outcome(world, claim.run))["attachments"] == [
        {"filename": "cat.png", "content_type": "image/png", "size": len(CAT.data)},
        {"filename": "notes.md", "content_type": "image/png", "size": len(CAT.data)},
    ]
    found = await world.reply_files.file(claim.run, 2)
    assert found == ReplyFile("notes.md", "image/png", len(CAT.data), files[1].blob)
    assert [piece async for piece in world.reply_files.pieces(found)] == [CAT.data]
    assert [await world.reply_files.file(claim.run, number) for number in (0, 3)] == [None, None]
    assert await world.reply_files.file(new_id(), 1) is None


async def test_callers_over_http_fetch_theirs(world: World) -> None:
    """Nothing carries it out to them."""
    claim = await _with_calls_open(world, conversation=None)
    file = a_file(new_id())
    await world.blobs.keep(file.blob, claim.run, CAT)
    await _sends(world, claim, file)
    await _ends(world, claim)
    assert await world.deliveries() == []
    assert await world.reply_files.file(claim.run, 1) == ReplyFile("cat.png", "image/png", len(CAT.data), file.blob)


async def test_a_large_file_is_read_in_pieces_and_one_that_went_is_told(world: World) -> None:
    """Many may fetch many at once."""
    claim = await _with_calls_open(world)
    large = Attachment("image/png", b"01234567" * (PIECE // 8) + b"end", "cat.png")
    file = replace(a_file(new_id()), size=len(large.data))
    await world.blobs.keep(file.blob, claim.run, large)
    await _sends(world, claim, file)
    await _ends(world, claim)
    found = await world.reply_files.file(claim.run, 1)
    assert found is not None
    assert [piece async for piece in world.reply_files.pieces(found)] == [large.data[:PIECE], b"end"]
    with pytest.raises(TryLater):
        _ = [piece async for piece in world.reply_files.pieces(replace(found, blob=new_id()))]


async def test_a_reply_without_files_says_nothing_of_any(world: World) -> None:
    """What was kept and never sent is nobody's."""
    claim = await _with_calls_open(world)
    await world.blobs.keep(new_id(), claim.run, CAT)
    await _ends(world, claim)
    assert "attachments" not in await _outcome(world, claim.run)
    assert len(await world.deliveries()) == 1
    assert await world.reply_files.file(claim.run, 1) is None


async def test_who_dies_behind_the_act_has_sent_it_once(world: World) -> None:
    """The heir finds its result, and asks again in vain."""
    claim = await _with_calls_open(world)
    file = a_file(new_id())
    await world.blobs.keep(file.blob, claim.run, CAT)
    first = await _sends(world, claim, file)
    assert await _sends(world, claim, file) == first
    await world.fence()
    heir = await world.hire()
    again = await world.claim(CHAT, worker=heir)
    assert [effect.state for effect in again.effects] == ["done"]
    world.me = heir
    await _ends(world, again)
    assert [row.file for row in await world.deliveries()] == [None, file.document()]


async def test_who_dies_before_the_act_has_sent_nothing(world: World) -> None:
    """Its heir keeps the bytes anew, as they are by then, and sends them; who was counted as dead sends nothing."""
    claim = await _with_calls_open(world)
    file = a_file(new_id())
    await world.blobs.keep(file.blob, claim.run, Attachment("image/png", b"old", "cat.png"))
    await world.fence()
    heir = await world.hire()
    again = await world.claim(CHAT, worker=heir)
    with pytest.raises(LostClaim):
        await _sends(world, claim, file)
    world.me = heir
    await world.blobs.keep(file.blob, claim.run, CAT)
    await _sends(world, again, file)
    await world.blobs.keep(file.blob, claim.run, Attachment("image/png", b"too late", "cat.png"))
    await _ends(world, again)
    assert await world.blobs.load([file.blob]) == {file.blob: CAT.data}
    assert [row.file for row in await world.deliveries()] == [None, file.document()]


async def test_what_was_sent_goes_out_also_where_the_run_fails(world: World) -> None:
    """The agent was told that it goes out; after a cancel nothing does."""
    claim = await _with_calls_open(world)
    file = a_file(new_id())
    await world.blobs.keep(file.blob, claim.run, CAT)
    await _sends(world, claim, file)
    await world.fence()
    await killed(world, CHAT, 3)
    assert (await _outcome(world, claim.run))["state"] == "dead"
    assert [row.file for row in await world.deliveries()] == [None, file.document()]


async def test_after_a_cancel_nothing_goes_out(world: World) -> None:
    """Its person has asked for that."""
    claim = await _with_calls_open(world)
    await _sends(world, claim, a_file(new_id()))
    await _ends(world, claim, state="cancelled")
    assert await world.deliveries() == []
    assert "attachments" not in await _outcome(world, claim.run)


async def test_a_reply_has_at_most_ten(world: World) -> None:
    """The model reads why."""
    claim = await _with_calls_open(world, calls=11)
    answers = [await _sends(world, claim, a_file(new_id()), index=index) for index in range(11)]
    assert [answer.error for answer in answers] == [
        *[None] * 10, "this reply has 10 files already, and may not have more"
    ]  # fmt: skip


async def test_a_sub_agent_has_nobody_to_send_files_to(world: World) -> None:
    """Its reply is read by the run that asked for it, which can send the file itself."""
    parent = await with_spawns_open(world)
    child = await asking(world, await the_child(world, await spawn(world, parent)))
    answer = await _sends(world, child, a_file(new_id()))
    assert (answer.error or "").startswith("a sub-agent has nobody to send files to")
