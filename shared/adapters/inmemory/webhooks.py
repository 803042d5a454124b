"""Webhooks out, without a Postgres."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.tables import as_json
from shared.ids import new_id
from shared.ports.clock import Clock
from shared.ports.webhooks import Webhook


@dataclass(slots=True)
class WebhookRow:
    """A row of ``webhooks``."""

    id: UUID
    run: UUID
    target: str
    body: Mapping[str, Any]
    due_at: datetime
    tried_since: datetime
    state: str = "pending"
    attempts: int = 0
    sender: UUID | None = None
    claimed_at: datetime | None = None
    last_status: int | None = None
    error: str | None = None


class InMemoryWebhooks:
    """``Webhooks`` of the ports; ``make`` stands for the transaction that ends a run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows: dict[UUID, WebhookRow] = {}

    def make(self, run: UUID, target: str, body: Mapping[str, Any]) -> UUID:
        """A new one, due now."""
        now = self._clock.now()
        row = WebhookRow(new_id(), run, target, as_json(body), due_at=now, tried_since=now)
        self.rows[row.id] = row
        return row.id

    async def take(
        self, *, sender: UUID, targets: Sequence[str], in_hand: Collection[UUID], limit: int, stale: timedelta
    ) -> Sequence[Webhook]:
        """See ``Webhooks.take``."""
        now = self._clock.now()
        ours = [row for row in self.rows.values() if row.target in targets]
        lost = [row for row in ours if row.state == "sending" and _is_lost(row, sender, in_hand, now - stale)]
        due = [row for row in ours if row.state == "pending" and row.due_at <= now]
        taken = [*lost, *sorted(due, key=lambda row: row.due_at)][:limit]
        for row in taken:
            row.state, row.sender, row.claimed_at = "sending", sender, now
            row.attempts += 1
        return [
            Webhook(row.id, row.run, row.target, as_json(row.body), row.attempts, now - row.tried_since)
            for row in taken
        ]

    async def sent(self, webhook: Webhook, *, status: int) -> bool:
        """See ``Webhooks.sent``."""
        row = self.rows[webhook.id]
        if row.state == "dropped":
            return False
        row.state, row.last_status, row.error = "sent", status, None
        return True

    async def put_off(
        self, webhook: Webhook, *, sender: UUID, after: timedelta, status: int | None, reason: str
    ) -> bool:
        """See ``Webhooks.put_off``."""
        if not self._failed(webhook, sender, status, reason):
            return False
        row = self.rows[webhook.id]
        row.state, row.due_at = "pending", self._clock.now() + after
        return True

    async def give_up(self, webhook: Webhook, *, sender: UUID, status: int | None, reason: str) -> bool:
        """See ``Webhooks.give_up``."""
        if not self._failed(webhook, sender, status, reason):
            return False
        self.rows[webhook.id].state = "dead"
        return True

    def _failed(self, webhook: Webhook, sender: UUID, status: int | None, reason: str) -> bool:
        row = self.rows[webhook.id]
        if (row.state, row.sender, row.attempts) != ("sending", sender, webhook.attempts):
            return False
        row.last_status, row.error = status, reason
        return True


def _is_lost(row: WebhookRow, sender: UUID, in_hand: Collection[UUID], before: datetime) -> bool:
    stale = row.claimed_at is not None and row.claimed_at < before
    return stale or (row.sender == sender and row.id not in in_hand)
