"""The sender of webhooks, by hand: a store in memory, a clock that stands, receivers by script."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from services.gateway.actions.send_webhooks import AT_ONCE, WebhookSender
from services.gateway.rules.webhook_verdict import Receipt
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.webhooks import InMemoryWebhooks
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.webhooks import Webhook


class ScriptedCourier:
    """Gives its answers one after the other, the last one for ever; ``None`` hangs until ``release``."""

    def __init__(self, *answers: Receipt | None) -> None:
        self._answers = list(answers)
        self.carried: list[Webhook] = []
        self.release = asyncio.Event()

    async def deliver(self, webhook: Webhook) -> Receipt:
        self.carried.append(webhook)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            await self.release.wait()
            return Receipt(200)
        return answer


class AwayAtFirst(InMemoryWebhooks):
    """A store that is away for the first verdicts."""

    away = 2

    async def sent(self, webhook: Webhook, *, status: int) -> bool:
        if self.away:
            self.away -= 1
            raise TryLater("Postgres can't be reached")
        return await super().sent(webhook, status=status)


class Desk:
    """A sender and what it works with."""

    def __init__(self, *answers: Receipt | None, store: type[InMemoryWebhooks] = InMemoryWebhooks) -> None:
        self.clock = ManualClock()
        self.store = store(self.clock)
        self.courier = ScriptedCourier(*answers)
        self.sender = WebhookSender(
            self.store,
            {"callback": self.courier},
            self.clock,
            me=new_id(),
            stale=timedelta(minutes=1),
            chance=random.Random(7),  # noqa: S311 - seeded on purpose
        )

    def make(self, number: int = 1) -> list[UUID]:
        return [self.store.make(new_id(), "callback", {"reply": "hi"}) for _ in range(number)]

    def states(self) -> Sequence[str]:
        return [row.state for row in self.store.rows.values()]

    async def look(self) -> bool:
        more = await self.sender.look()
        for _ in range(10):
            await asyncio.sleep(0)
        return more


async def test_one_is_sent_and_then_left_alone() -> None:
    """Once is enough."""
    desk = Desk(Receipt(204))
    desk.make()
    await desk.look()
    await desk.look()
    assert desk.states() == ["sent"]
    assert len(desk.courier.carried) == 1


async def test_one_that_failed_comes_back_under_the_same_id() -> None:
    """The receiver tells repeats apart by it."""
    desk = Desk(Receipt(500), Receipt(None, "no answer within 10 s"), Receipt(200))
    (made,) = desk.make()
    for seconds in (0, 6, 12):
        desk.clock.advance(seconds)
        await desk.look()
    assert desk.states() == ["sent"]
    assert [(webhook.id, webhook.attempts) for webhook in desk.courier.carried] == [(made, 1), (made, 2), (made, 3)]


async def test_a_receiver_that_never_takes_it_is_given_up_after_a_day() -> None:
    """Some thirty tries, then a person decides."""
    desk = Desk(Receipt(500))
    desk.make()
    for _ in range(3000):
        await desk.look()
        desk.clock.advance(60)
    assert desk.states() == ["dead"]
    (row,) = desk.store.rows.values()
    assert row.error == f"the receiver answered 500; tried {row.attempts} times"
    assert 25 <= row.attempts <= 40


async def test_receivers_that_hang_hold_a_bounded_number_of_tries() -> None:
    """The rest waits in Postgres, where other gateways find it."""
    desk = Desk(None)
    desk.make(AT_ONCE + 5)
    assert await desk.look()
    assert len(desk.courier.carried) == AT_ONCE
    waiting = asyncio.create_task(desk.sender.look())
    await asyncio.sleep(0)
    assert desk.states().count("pending") == 5
    desk.courier.release.set()
    assert await waiting
    await desk.look()
    assert set(desk.states()) == {"sent"}


async def test_a_gateway_that_is_stopped_leaves_its_tries_to_others_at_once() -> None:
    """Not after a minute, as one that was killed."""
    desk = Desk(None)
    desk.make()
    await desk.look()
    closing = asyncio.create_task(desk.sender.close())
    async with asyncio.timeout(10):
        await closing
    assert desk.states() == ["pending"]
    (row,) = desk.store.rows.values()
    assert row.due_at == desk.clock.now()


async def test_a_receipt_is_booked_as_soon_as_postgres_is_back() -> None:
    """Else the receiver would get it again, a minute later, for nothing."""
    desk = Desk(Receipt(200), store=AwayAtFirst)
    desk.make()
    await desk.look()
    for _ in range(20):
        await asyncio.sleep(0)
    assert desk.states() == ["sent"]
