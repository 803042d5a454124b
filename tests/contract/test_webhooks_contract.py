"""What every store of webhooks promises its senders, asked of the fake and of Postgres."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from shared.ids import new_id
from shared.ports.webhooks import Webhook
from tests.webhook_worlds import InMemoryWebhookWorld, Look, PostgresWebhookWorld, WebhookWorld

ME, PEER = new_id(), new_id()
SOON = timedelta(milliseconds=150)
LONG = timedelta(hours=1)


@pytest.fixture(params=["inmemory", "postgres"])
def world(request: pytest.FixtureRequest) -> WebhookWorld:
    if request.param == "inmemory":
        return InMemoryWebhookWorld()
    return PostgresWebhookWorld(request.getfixturevalue("database"))


async def take(
    world: WebhookWorld,
    *,
    sender: UUID = ME,
    in_hand: Collection[UUID] = (),
    limit: int = 10,
    stale: timedelta = LONG,
    targets: Sequence[str] = ("callback",),
) -> Sequence[Webhook]:
    return await world.webhooks.take(sender=sender, targets=targets, in_hand=in_hand, limit=limit, stale=stale)


async def test_what_was_made_is_handed_out_once_and_whole(world: WebhookWorld) -> None:
    """The body is what the transaction wrote, and the id is the receiver's means against repeats."""
    made = await world.make(reply="hi", silent=False)
    (webhook,) = await take(world)

    assert (webhook.id, webhook.target, webhook.attempts) == (made, "callback", 1)
    assert webhook.body == {"reply": "hi", "silent": False}
    assert webhook.tried_for < timedelta(seconds=30)
    assert await take(world, sender=PEER) == []
    assert await take(world, in_hand=[made]) == []
    assert (await world.look(made)).state == "sending"


async def test_many_senders_never_have_the_same_one(world: WebhookWorld) -> None:
    """Any number of gateways send."""
    made = {await world.make(number=number) for number in range(12)}
    taken = await asyncio.gather(*(take(world, sender=new_id(), limit=3) for _ in range(6)))
    ids = [webhook.id for batch in taken for webhook in batch]
    # Rows that a peer has locked at this moment are passed over, and found by the next look.
    rest = [webhook.id for webhook in await take(world, sender=new_id(), limit=20)]
    assert len(ids) + len(rest) == len(made)
    assert {*ids, *rest} == made


async def test_what_nobody_here_can_carry_stays(world: WebhookWorld) -> None:
    """A target may be known to some gateways only."""
    made = await world.make("elsewhere")
    assert await take(world) == []
    assert (await world.look(made)).state == "pending"


async def test_sent_is_the_end(world: WebhookWorld) -> None:
    """Nobody gets it any more; being told twice changes nothing."""
    made = await world.make()
    (webhook,) = await take(world)
    assert await world.webhooks.sent(webhook, status=204)
    assert await world.webhooks.sent(webhook, status=204)
    assert await world.look(made) == Look("sent", 1, 204, None)
    assert await take(world, sender=PEER, stale=timedelta(0)) == []


async def test_one_that_was_put_off_comes_back_when_it_is_time(world: WebhookWorld) -> None:
    """And counts its tries."""
    made = await world.make()
    (webhook,) = await take(world)
    assert await world.webhooks.put_off(webhook, sender=ME, after=SOON, status=503, reason="busy")
    assert await world.look(made) == Look("pending", 1, 503, "busy")
    assert await take(world) == []
    await world.wait(0.3)
    (again,) = await take(world, sender=PEER)
    assert (again.id, again.attempts) == (made, 2)


async def test_a_sender_that_died_leaves_nothing_behind(world: WebhookWorld) -> None:
    """It was killed between taking and telling: another one sends it, under the same id."""
    made = await world.make()
    (first,) = await take(world)
    assert await take(world, sender=PEER, stale=SOON) == []
    await world.wait(0.3)
    (second,) = await take(world, sender=PEER, stale=SOON)
    assert (second.id, second.attempts) == (made, 2)

    # The first was only asleep: what it says of its own try counts no more, but that the receiver has it does.
    assert not await world.webhooks.put_off(first, sender=ME, after=LONG, status=None, reason="late")
    assert not await world.webhooks.give_up(first, sender=ME, status=410, reason="late")
    assert (await world.look(made)).state == "sending"
    assert await world.webhooks.sent(first, status=200)
    assert not await world.webhooks.put_off(second, sender=PEER, after=LONG, status=500, reason="late")
    assert (await world.look(made)).state == "sent"


async def test_an_answer_that_got_lost_is_made_up_for_at_once(world: WebhookWorld) -> None:
    """The sender does not know what it was given; nobody else may wait a minute for it to die."""
    made = await world.make()
    await take(world)
    (again,) = await take(world)
    assert again.id == made


async def test_what_was_given_up_is_dead_with_its_reason(world: WebhookWorld) -> None:
    """Until somebody looks at it."""
    made = await world.make()
    (webhook,) = await take(world)
    assert await world.webhooks.give_up(webhook, sender=ME, status=410, reason="gone")
    assert not await world.webhooks.give_up(webhook, sender=ME, status=410, reason="gone")
    assert await world.look(made) == Look("dead", 1, 410, "gone")
    assert await take(world, stale=timedelta(0)) == []


async def test_what_an_operator_dropped_stays_dropped(world: WebhookWorld) -> None:
    """Whatever a late sender says."""
    made = await world.make()
    (webhook,) = await take(world)
    await world.drop(made)
    assert not await world.webhooks.sent(webhook, status=200)
    assert not await world.webhooks.put_off(webhook, sender=ME, after=SOON, status=None, reason="late")
    assert (await world.look(made)).state == "dropped"


async def test_the_oldest_come_first_and_no_more_than_asked_for(world: WebhookWorld) -> None:
    """A backlog is worked off in its order."""
    made = [await world.make(number=number) for number in range(5)]
    assert {webhook.id for webhook in await take(world, limit=2)} == set(made[:2])
    assert {webhook.id for webhook in await take(world, sender=PEER, limit=2)} == set(made[2:4])
