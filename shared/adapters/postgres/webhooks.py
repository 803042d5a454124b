"""Webhooks out of their table; the functions are those of ``0005_webhooks.sql``."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.ports.webhooks import Webhook

TAKE = """
select w.id, w.run, w.target,
       w.body || case when r.traceparent is null then '{}'::jsonb
                      else jsonb_build_object('trace_id', split_part(r.traceparent, '-', 2)) end,
       w.attempts, w.tried_for, r.traceparent
from lucyd_take_webhooks(%s, %s::text[], %s::uuid[], %s, %s) w left join runs r on r.id = w.run
"""
SENT = "select lucyd_webhook_sent(%s, %s)"
FAILED = "select lucyd_webhook_failed(%s, %s, %s, %s, %s, %s)"


class PostgresWebhooks:
    """``Webhooks`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(
        self, *, sender: UUID, targets: Sequence[str], in_hand: Collection[UUID], limit: int, stale: timedelta
    ) -> Sequence[Webhook]:
        """See ``Webhooks.take``."""
        parameters = (sender, list(targets), list(in_hand), limit, stale)
        return [Webhook(*row) for row in await self._database.rows(TAKE, parameters)]

    async def sent(self, webhook: Webhook, *, status: int) -> bool:
        """See ``Webhooks.sent``."""
        return bool(await self._database.value(SENT, (webhook.id, status)))

    async def put_off(
        self, webhook: Webhook, *, sender: UUID, after: timedelta, status: int | None, reason: str
    ) -> bool:
        """See ``Webhooks.put_off``."""
        return await self._failed(webhook, sender, after, status, reason)

    async def give_up(self, webhook: Webhook, *, sender: UUID, status: int | None, reason: str) -> bool:
        """See ``Webhooks.give_up``."""
        return await self._failed(webhook, sender, None, status, reason)

    async def _failed(
        self, webhook: Webhook, sender: UUID, after: timedelta | None, status: int | None, reason: str
    ) -> bool:
        parameters = (webhook.id, sender, webhook.attempts, after, status, reason)
        return bool(await self._database.value(FAILED, parameters))
