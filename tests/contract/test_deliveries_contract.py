"""What every store of deliveries promises, asked of the fake and of Postgres."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from shared.domain.delivery import IN_DOUBT, Delivery, Reaction
from shared.domain.outgoing_file import OutgoingFile
from shared.ids import new_id
from tests.deliveries_worlds import CHAT, DeliveriesWorld, InMemoryDeliveriesWorld, PostgresDeliveriesWorld


@pytest.fixture(params=["inmemory", "postgres"])
def world(request: pytest.FixtureRequest) -> DeliveriesWorld:
    if request.param == "inmemory":
        return InMemoryDeliveriesWorld()
    return PostgresDeliveriesWorld(request.getfixturevalue("database"))


class Leader:
    """A bridge that leads, and what it has in hand."""

    def __init__(self, world: DeliveriesWorld, bridge: UUID, epoch: int) -> None:
        self.world = world
        self.bridge = bridge
        self.epoch = epoch

    async def claims(self, *, in_hand: Collection[UUID] = (), limit: int = 10) -> Sequence[Delivery]:
        claimed = await self.world.deliveries.claim(bridge=self.bridge, epoch=self.epoch, in_hand=in_hand, limit=limit)
        assert claimed is not None
        return claimed

    async def claims_one(self, *, in_hand: Collection[UUID] = ()) -> Delivery:
        (claimed,) = await self.claims(in_hand=in_hand)
        return claimed

    async def dies(self) -> None:
        await self.world.fleet.fence(self.bridge, beat=None, state="fenced")


async def leader(world: DeliveriesWorld) -> Leader:
    bridge = await world.hire()
    epoch = await world.deliveries.lead(bridge)
    assert epoch is not None
    return Leader(world, bridge, epoch)


async def notice_of(me: Leader) -> Delivery:
    claimed = await me.claims_one()
    assert claimed.kind == "notice"
    return claimed


async def test_what_is_claimed_comes_as_it_was_put_in(world: DeliveriesWorld) -> None:
    """And is settled with the number that the channel gave it."""
    id = await world.put("hello")
    me = await leader(world)
    claimed = await me.claims_one()

    assert (claimed.id, claimed.conversation, claimed.kind, claimed.text, claimed.attempt) == (
        id,
        CHAT,
        "reply",
        "hello",
        1,
    )
    assert (await world.stored(id)).state == "sending"
    assert await world.deliveries.sent(claimed, external_id="99")
    assert await world.deliveries.sent(claimed, external_id="99")  # its answer got lost
    stored = await world.stored(id)
    assert (stored.state, stored.external_id) == ("sent", "99")
    assert list(await me.claims()) == []


async def test_what_brings_a_file_names_it(world: DeliveriesWorld) -> None:
    """The bytes are read by whoever sends them."""
    file = OutgoingFile(new_id(), "cat.png", "image/png", 1700, "photo", "A cat.")
    await world.put("", file=file)
    claimed = await (await leader(world)).claims_one()
    assert (claimed.file, claimed.text) == (file, "A cat.")


async def test_a_conversation_is_sent_in_its_order_one_after_the_other(world: DeliveriesWorld) -> None:
    """Part two must never overtake part one, whichever was put in first."""
    await world.put("4", ordinal=2)
    await world.put("2", part=2)
    await world.put("1")
    await world.put("3", part=3, kind="question")
    me = await leader(world)
    seen = []
    for _ in range(4):
        claimed = await me.claims_one()
        assert list(await me.claims(in_hand=[claimed.id])) == []
        seen.append(claimed.text)
        await world.deliveries.sent(claimed, external_id="1")
    assert seen == ["1", "2", "3", "4"]


async def test_conversations_do_not_wait_for_each_other(world: DeliveriesWorld) -> None:
    """One chat that Telegram slows down must not hold up the others."""
    for name in "abc":
        await world.put(name, conversation=f"telegram:{name}")
        await world.put(name + name, conversation=f"telegram:{name}", part=2)
    me = await leader(world)
    first = await me.claims(limit=2)
    assert sorted(each.text for each in first) == ["a", "b"]
    rest = await me.claims(in_hand=[each.id for each in first])
    assert [each.text for each in rest] == ["c"]


async def test_only_the_leader_claims(world: DeliveriesWorld) -> None:
    """Two bridges that send at once would send twice."""
    await world.put("hello")
    old = await leader(world)
    other = await world.hire()
    assert await world.deliveries.lead(other) is None
    again = await world.deliveries.lead(old.bridge)
    assert again is not None
    assert again > old.epoch
    await world.fleet.drain(old.bridge)
    new = await leader(world)

    assert new.epoch > again
    assert await world.deliveries.claim(bridge=old.bridge, epoch=old.epoch, in_hand=(), limit=1) is None
    assert await world.deliveries.claim(bridge=old.bridge, epoch=new.epoch, in_hand=(), limit=1) is None
    assert (await new.claims_one()).text == "hello"


async def test_who_was_fenced_or_drains_claims_nothing_and_never_leads(world: DeliveriesWorld) -> None:
    """What it claimed would be in doubt at once."""
    await world.put("hello")
    drained = await leader(world)
    await world.fleet.drain(drained.bridge)
    fenced = await leader(world)
    await fenced.dies()

    assert await world.deliveries.claim(bridge=fenced.bridge, epoch=fenced.epoch, in_hand=(), limit=1) is None
    for bridge in (drained.bridge, fenced.bridge, new_id()):
        assert await world.deliveries.lead(bridge) is None


async def test_a_claim_whose_answer_got_lost_is_made_again(world: DeliveriesWorld) -> None:
    """Nobody has begun to send it: it is not in doubt, and must not be forgotten."""
    id = await world.put("hello")
    me = await leader(world)
    lost = await me.claims_one()
    found = await me.claims_one()

    assert (found.id, found.attempt) == (id, lost.attempt + 1)
    assert not await world.deliveries.sent(lost, external_id="1")
    assert list(await me.claims(in_hand=[id])) == []


async def test_what_was_put_off_waits_and_holds_up_what_follows(world: DeliveriesWorld) -> None:
    """Telegram says for how long; the order stays."""
    await world.put("1")
    await world.put("2", part=2)
    await world.put("other", conversation="telegram:8")
    me = await leader(world)
    first, other = await me.claims()
    assert await world.deliveries.put_off(first, after=timedelta(seconds=0.3), reason="slow down")
    assert list(await me.claims(in_hand=[other.id])) == []
    stored = await world.stored(first.id)
    assert (stored.state, stored.error) == ("pending", "slow down")
    await world.wait(0.35)

    again = await me.claims_one(in_hand=[other.id])
    assert (again.text, again.attempt) == ("1", 2)
    assert not await world.deliveries.put_off(first, after=timedelta(0), reason="late")  # of the first attempt
    assert (await world.stored(first.id)).state == "sending"


async def test_what_failed_does_not_hold_up_what_follows(world: DeliveriesWorld) -> None:
    """It is kept with its reason."""
    await world.put("1")
    await world.put("2", part=2)
    me = await leader(world)
    first = await me.claims_one()
    assert await world.deliveries.fail(first, reason="400 chat not found")
    assert not await world.deliveries.fail(first, reason="again")

    stored = await world.stored(first.id)
    assert (stored.state, stored.error) == ("failed", "400 chat not found")
    assert (await me.claims_one()).text == "2"


async def test_what_is_in_doubt_is_said_before_what_follows_and_sent_again_once(world: DeliveriesWorld) -> None:
    """Never silent, never twice by itself; the person decides, and a button pressed twice is pressed once."""
    first_id = await world.put("1")
    await world.put("2", part=2)
    me = await leader(world)
    first = await me.claims_one()
    assert await world.deliveries.doubt(first, reason="the line was cut")
    assert not await world.deliveries.doubt(first, reason="the line was cut")
    assert (await world.stored(first_id)).state == "in_doubt"

    notice = await notice_of(me)
    assert notice.text == IN_DOUBT
    assert notice.body["again"] == str(first_id)
    await world.deliveries.sent(notice, external_id="5")
    second = await me.claims_one()
    assert second.text == "2"
    assert await world.deliveries.again(notice.id, place="telegram:8") == "unknown"
    assert await world.deliveries.again(notice.id, place="telegram") == "again"  # all conversations of a place
    assert await world.deliveries.again(notice.id, place=CHAT) == "used"
    assert list(await me.claims(in_hand=[second.id])) == []
    await world.deliveries.sent(second, external_id="6")
    third = await me.claims_one()
    assert (third.id, third.attempt) == (first_id, 2)
    await world.deliveries.sent(third, external_id="7")
    assert await world.deliveries.again(notice.id, place=CHAT) == "used"


async def test_a_second_doubt_has_a_notice_of_its_own(world: DeliveriesWorld) -> None:
    """And the first one's button is good for nothing any more."""
    await world.put("1")
    me = await leader(world)
    await world.deliveries.doubt(await me.claims_one(), reason="cut")
    first = await notice_of(me)
    await world.deliveries.sent(first, external_id="1")
    await world.deliveries.again(first.id, place=CHAT)
    await world.deliveries.doubt(await me.claims_one(), reason="cut")
    second = await notice_of(me)

    assert second.id != first.id
    assert await world.deliveries.again(first.id, place=CHAT) == "used"
    assert await world.deliveries.again(second.id, place=CHAT) == "again"


async def test_of_a_notice_no_notice_is_given(world: DeliveriesWorld) -> None:
    """That would never end."""
    await world.put("1", kind="notice")
    me = await leader(world)
    notice = await me.claims_one()
    await world.deliveries.doubt(notice, reason="cut")

    assert list(await me.claims()) == []
    assert await world.deliveries.again(notice.id, place=CHAT) == "unknown"


async def test_what_a_dead_bridge_was_sending_is_in_doubt(world: DeliveriesWorld) -> None:
    """However many look, it is said once; what a living one sends is left alone."""
    await world.put("1")
    await world.put("2", conversation="telegram:8")
    old = await leader(world)
    first = (await old.claims(limit=1))[0]
    await world.fleet.drain(old.bridge)
    me = await leader(world)
    other = await me.claims_one()
    assert (
        await world.deliveries.doubt_abandoned() == 0
    )  # it gave up the lead, but lives: it will say what became of it
    await old.dies()

    assert sum(await asyncio.gather(*(world.deliveries.doubt_abandoned() for _ in range(3)))) == 1
    assert (await world.stored(first.id)).state == "in_doubt"
    assert (await world.stored(other.id)).state == "sending"
    notice = await me.claims_one(in_hand=[other.id])
    assert notice.body["again"] == str(first.id)


async def test_who_sent_it_knows_better_than_who_doubts(world: DeliveriesWorld) -> None:
    """Its word comes late, but it is the truth; a notice that is not out yet is dropped."""
    await world.put("1")
    old = await leader(world)
    first = await old.claims_one()
    await old.dies()
    me = await leader(world)
    await world.deliveries.doubt_abandoned()
    assert await world.deliveries.sent(first, external_id="1")

    assert (await world.stored(first.id)).state == "sent"
    assert list(await me.claims()) == []


async def test_a_word_of_the_bridges_own_is_put_in_once(world: DeliveriesWorld) -> None:
    """The same update may be met again after a crash."""
    id = new_id()
    assert await world.deliveries.notice(id, CHAT, text="I can't read that.")
    assert not await world.deliveries.notice(id, CHAT, text="I can't read that.")
    assert await world.deliveries.notice(new_id(), CHAT, text="Nor that.")
    me = await leader(world)
    first = await me.claims_one()
    assert (first.id, first.kind, first.text) == (id, "notice", "I can't read that.")
    await world.deliveries.sent(first, external_id="1")
    assert (await me.claims_one()).text == "Nor that."


async def test_a_reaction_comes_as_it_was_put_in_and_is_never_in_doubt(world: DeliveriesWorld) -> None:
    """Put below its message twice it is there once: whoever leads next does it again, and nobody is asked."""
    reaction = Reaction("12", "\N{FIRE}")
    id = await world.put("", kind="reaction", reaction=reaction)
    me = await leader(world)
    claimed = await me.claims_one()
    assert (claimed.kind, claimed.reaction, claimed.text) == ("reaction", reaction, "")
    await me.dies()
    assert await world.deliveries.doubt_abandoned() == 1
    heir = await leader(world)
    again = await heir.claims_one()
    assert (again.id, again.attempt) == (id, 2)
    assert await world.deliveries.doubt(again, reason="cut")
    third = await heir.claims_one()
    assert await world.deliveries.sent(third, external_id="12")
    assert not await heir.claims()
