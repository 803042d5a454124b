"""What was read out of attachments stands in its message, once; asked of the fake and of Postgres."""

from typing import Any
from uuid import UUID

import pytest

from shared.domain.attachment import Attachment, blob_id
from shared.domain.chat import ContentBlock
from shared.domain.run import Claim
from shared.errors import LostClaim
from tests.builders import bodies, new_run
from tests.runs_worlds import World

VOICE = Attachment("audio/ogg", b"OggS some words", "voice.ogg", is_voice=True)
HEARD: list[ContentBlock] = [{"type": "text", "text": "hello\n[voice message]: how are you"}]


async def _claimed(world: World) -> Claim:
    await world.accept(new_run("hello", attachments=[VOICE]))
    return await world.claim()


async def _keep(world: World, claim: Claim, content: list[ContentBlock], blob: UUID | None = None) -> None:
    await world.prepared.keep(
        claim.conversation,
        worker=world.me,
        epoch=claim.epoch,
        run=claim.run,
        blob=blob or blob_id(claim.run, 0),
        content=content,
    )


async def _content(world: World, claim: Claim) -> Any:
    (body,) = await world.messages(claim.session.id)
    return body["content"], body.get("prepared")


async def test_a_prepared_message_is_what_an_heir_reads(world: World) -> None:
    """What was bought is not bought again when the worker dies before its first step."""
    claim = await _claimed(world)
    await _keep(world, claim, HEARD)
    await world.fence()
    heir = await world.claim(worker=await world.hire())
    (body,) = bodies(heir)
    assert body["content"] == HEARD
    assert body["prepared"] is True
    assert body["received_at"] == bodies(claim)[0]["received_at"]


async def test_it_is_prepared_once(world: World) -> None:
    """The answer to a write may get lost; a second one with other words changes nothing."""
    claim = await _claimed(world)
    await _keep(world, claim, HEARD)
    await _keep(world, claim, [{"type": "text", "text": "something else"}])
    assert await _content(world, claim) == (HEARD, True)


async def test_only_the_message_with_that_attachment_is_changed(world: World) -> None:
    """A run may have several."""
    claim = await _claimed(world)
    before = bodies(claim)[0]["content"]
    await _keep(world, claim, HEARD, blob=blob_id(claim.run, 7))
    assert await _content(world, claim) == (before, None)


async def test_a_lost_claim_changes_nothing(world: World) -> None:
    """An heir is at work, and has read the message as it was."""
    claim = await _claimed(world)
    before = bodies(claim)[0]["content"]
    await world.fence()
    await world.claim(worker=await world.hire())
    with pytest.raises(LostClaim):
        await _keep(world, claim, HEARD)
    assert await _content(world, claim) == (before, None)
