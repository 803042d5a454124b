"""What becomes of what is to be sent."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from services.telegram_bridge.actions.deliver import REACTION_TRIES, send_delivery
from services.telegram_bridge.ports import Refused, TokenRefused, Unclear
from services.telegram_bridge.rules.files import FileToSend, file_to_send
from services.telegram_bridge.rules.place import Place
from services.telegram_bridge.rules.updates import Button
from shared.domain.delivery import IN_DOUBT, Reaction
from shared.domain.outgoing_file import LARGEST_FILE, LARGEST_PHOTO, OutgoingFile
from shared.errors import TryLater
from shared.ids import new_id
from tests.unit.telegram_bridge.bridge_world import BridgeWorld

FIRE = "\N{FIRE}"


async def send_next(world: BridgeWorld, bridge: UUID, epoch: int) -> None:
    (delivery,) = await world.deliveries.claim(bridge=bridge, epoch=epoch, in_hand=(), limit=1) or ()
    await (await send_delivery(delivery, world.postman))()


async def test_what_is_sent_is_noted_with_its_number() -> None:
    """A topic is a place of its own."""
    world = BridgeWorld()
    id = world.due("hello", conversation="telegram:-7:3")
    await send_next(world, *await world.bridge())
    assert world.telegram.sent == [(Place(-7, 3), "hello", None)]
    assert (world.deliveries.rows[id].state, world.deliveries.rows[id].external_id) == ("sent", "1")


@pytest.mark.parametrize(
    ("fault", "state", "wait"),
    [
        (TryLater("slow", after=30), "pending", 30),
        (TryLater("broken"), "pending", 1),
        (TokenRefused("no"), "pending", 60),
        (Refused("403 blocked"), "failed", 0),
        (Unclear("cut"), "in_doubt", 0),
    ],
)
async def test_each_fault_has_its_consequence(fault: Exception, state: str, wait: float) -> None:
    """Only what was certainly not sent is sent again by itself."""
    world = BridgeWorld()
    id = world.due("hello")
    world.telegram.faults = [fault]
    await send_next(world, *await world.bridge())
    row = world.deliveries.rows[id]
    assert (row.state, row.error) == (state, str(fault))
    assert row.due_at == world.clock.now() + timedelta(seconds=wait)


async def test_a_doubt_is_told_with_a_button() -> None:
    """The button names the notice, so that it is good for one time."""
    world = BridgeWorld()
    world.due("hello")
    world.telegram.faults = [Unclear("cut")]
    bridge, epoch = await world.bridge()
    await send_next(world, bridge, epoch)
    await send_next(world, bridge, epoch)
    (notice,) = [row for row in world.deliveries.rows.values() if row.kind == "notice"]
    assert world.telegram.sent == [(Place(7), IN_DOUBT, Button("Send again", f"again:{notice.id}"))]
    assert len(f"again:{notice.id}".encode()) <= 64


@pytest.mark.parametrize("conversation", ["telegram:7", "http:key:anna", "telegram:x", "telegram:7:3:4"])
async def test_what_can_not_be_sent_is_kept_and_said(conversation: str) -> None:
    """It must not hold up what follows."""
    world = BridgeWorld()
    id = world.due(" \n" if conversation == "telegram:7" else "hello", conversation=conversation)
    await send_next(world, *await world.bridge())
    assert world.deliveries.rows[id].state == "failed"
    assert world.telegram.sent == []


async def test_a_reaction_is_put_below_its_message() -> None:
    """It is no message of its own, and has the number of the one that it stands below."""
    world = BridgeWorld()
    id = world.due_reaction(FIRE)
    await send_next(world, *await world.bridge())
    assert world.telegram.reactions == [(Place(7), Reaction("12", FIRE))]
    assert (world.telegram.sent, world.deliveries.rows[id].state) == ([], "sent")


async def test_a_reaction_of_which_nobody_knows_is_tried_again_and_not_for_ever() -> None:
    """Done twice it is there once; but what is never answered must not hold up the chat."""
    world = BridgeWorld()
    id = world.due_reaction(FIRE)
    row = world.deliveries.rows[id]
    bridge, epoch = await world.bridge()
    world.telegram.faults = [Unclear("cut") for _ in range(REACTION_TRIES)]
    for _ in range(REACTION_TRIES - 1):
        await send_next(world, bridge, epoch)
        assert (row.state, row.error) == ("pending", "cut")
        assert row.due_at > world.clock.now()
        world.clock.advance(60)
    await send_next(world, bridge, epoch)
    assert (row.state, row.error) == ("failed", "cut")
    assert len(world.deliveries.rows) == 1  # nobody is told of it


async def test_a_reaction_that_is_refused_is_kept_and_said() -> None:
    """The message may have been deleted, or the chat may allow none."""
    world = BridgeWorld()
    id = world.due_reaction(FIRE)
    world.telegram.faults = [Refused("400 no such message")]
    await send_next(world, *await world.bridge())
    assert (world.deliveries.rows[id].state, world.deliveries.rows[id].error) == ("failed", "400 no such message")


async def test_nothing_is_sent_on_an_old_beat() -> None:
    """Peers may have counted this process as dead, and another may be sending the same."""
    world = BridgeWorld()
    world.due("hello")
    bridge, epoch = await world.bridge()
    world.pulse.fresh_from = 7.0
    await send_next(world, bridge, epoch)
    assert world.clock.monotonic() >= 7.0
    assert len(world.telegram.sent) == 1


async def test_a_settlement_is_tried_until_it_is_stored() -> None:
    """Else what was sent would be in doubt for want of a row."""
    world = BridgeWorld()
    id = world.due("hello")
    bridge, epoch = await world.bridge()
    stored = world.deliveries.sent
    faults = [TryLater("away"), TryLater("away", after=2)]

    async def sent(*given: object, **named: object) -> bool:
        if faults:
            raise faults.pop(0)
        return await stored(*given, **named)  # type: ignore[arg-type]

    world.deliveries.sent = sent  # type: ignore[method-assign]  # a Postgres that is away
    sending = asyncio.create_task(world.hand.send_due(bridge=bridge, epoch=epoch))
    async with asyncio.timeout(5):
        while world.deliveries.rows[id].state != "sent":
            await asyncio.sleep(0.01)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert world.hand.sent == 1
    assert world.hand.count == 0
    assert world.telegram.sent == [(Place(7), "hello", None)]


async def test_who_leads_no_more_claims_no_more_and_ends_what_is_out() -> None:
    """The call that is out can't be taken back; its answer still counts."""
    world = BridgeWorld()
    id = world.due("hello")
    bridge, epoch = await world.bridge()
    world.pulse.fresh_from = 0.0
    sending = asyncio.create_task(world.hand.send_due(bridge=bridge, epoch=epoch))
    await asyncio.sleep(0)
    await world.fleet.drain(bridge)
    world.hand.nudge()
    async with asyncio.timeout(5):
        await sending
        await world.hand.empty()
    assert world.deliveries.rows[id].state == "sent"


async def test_a_fault_nobody_thought_of_ends_the_process_and_leaves_a_doubt() -> None:
    """Going on would mean to send it once more."""
    world = BridgeWorld()
    id = world.due("hello")
    bridge, epoch = await world.bridge()
    world.telegram.faults = [ZeroDivisionError("x")]
    sending = asyncio.create_task(world.hand.send_due(bridge=bridge, epoch=epoch))
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(5):
            await world.hand.watch()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert world.deliveries.rows[id].state == "sending"


PNG = b"\x89PNG\r\n\x1a\n"


async def test_a_file_is_read_and_sent_as_it_is_to_be_shown() -> None:
    """Its bytes are nowhere but in the store until then."""
    world = BridgeWorld()
    id = world.due_file(PNG, caption="A cat.")
    await send_next(world, *await world.bridge())
    assert world.telegram.files == [(Place(7), FileToSend("cat.png", "image/png", "photo", "A cat.", PNG))]
    assert (world.deliveries.rows[id].state, world.deliveries.rows[id].external_id) == ("sent", "1")


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (TryLater("slow", after=30), "pending"),
        (TokenRefused("no"), "pending"),
        (Unclear("cut"), "in_doubt"),
    ],
)
async def test_only_a_refusal_makes_a_document_of_a_photo(fault: Exception, state: str) -> None:
    """After anything else it may stand in the chat already, or may yet be shown as it should."""
    world = BridgeWorld()
    id = world.due_file(PNG)
    world.telegram.faults = [fault]
    await send_next(world, *await world.bridge())
    assert (world.deliveries.rows[id].state, world.telegram.files) == (state, [])


async def test_a_photo_that_is_refused_goes_as_a_document() -> None:
    """A clear no says that nobody has seen it."""
    world = BridgeWorld()
    id = world.due_file(PNG, caption="A cat.")
    world.telegram.faults = [Refused("400 Bad Request: PHOTO_INVALID_DIMENSIONS")]
    await send_next(world, *await world.bridge())
    assert [(file.shown_as, file.caption) for _, file in world.telegram.files] == [("document", "A cat.")]
    assert world.deliveries.rows[id].state == "sent"


async def test_a_document_that_is_refused_has_failed() -> None:
    """There is no other way to show it."""
    world = BridgeWorld()
    id = world.due_file(PNG, shown_as="document")
    world.telegram.faults = [Refused("403 blocked")]
    await send_next(world, *await world.bridge())
    assert (world.deliveries.rows[id].state, world.deliveries.rows[id].error) == ("failed", "403 blocked")


async def test_a_file_whose_bytes_are_gone_has_failed() -> None:
    """It is told why, and does not hold up what follows."""
    world = BridgeWorld()
    id = world.due_file(None)
    await send_next(world, *await world.bridge())
    assert (world.deliveries.rows[id].state, world.deliveries.rows[id].error) == (
        "failed",
        "the file is no longer kept",
    )


def test_what_is_too_large_for_a_photo_is_a_document_and_beyond_all_bounds_nothing() -> None:
    """Telegram would take the bytes, and refuse them then."""
    file = OutgoingFile(new_id(), "", "image/png", 0, "photo")
    assert [
        sending and (sending.shown_as, sending.name)
        for sending in (
            file_to_send(file, bytes(size)) for size in (LARGEST_PHOTO, LARGEST_PHOTO + 1, LARGEST_FILE + 1)
        )
    ] == [("photo", "photo.png"), ("document", "document.png"), None]
