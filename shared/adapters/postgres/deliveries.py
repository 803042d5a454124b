"""Deliveries over Postgres: one function call each."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.domain.delivery import BRIDGE_DIED, IN_DOUBT, Delivery
from shared.ports.deliveries import Again

LEAD = "select lucyd_lead_channel(%s, %s)"
CLAIM = "select lucyd_deliveries_claim_2(%s, %s, %s, %s, %s, true)"
SENT = "select lucyd_delivery_sent(%s, %s, %s)"
PUT_OFF = "select lucyd_delivery_put_off(%s, %s, %s, %s)"
FAILED = "select lucyd_delivery_failed(%s, %s, %s)"
DOUBT = "select lucyd_delivery_doubt(%s, %s, %s, %s)"
DOUBT_ABANDONED = "select lucyd_deliveries_doubt(%s, %s, %s)"
AGAIN = "select lucyd_delivery_again(%s, %s, %s)"
NOTICE = "select lucyd_delivery_notice(%s, %s, %s, %s::jsonb)"


class PostgresDeliveries:
    """``Deliveries`` of the ports."""

    def __init__(self, database: Database, *, channel: str) -> None:
        self._database = database
        self._channel = channel

    async def lead(self, bridge: UUID) -> int | None:
        """See ``Deliveries.lead``."""
        epoch: int | None = await self._database.value(LEAD, (self._channel, bridge))
        return epoch

    async def claim(
        self, *, bridge: UUID, epoch: int, in_hand: Collection[UUID], limit: int
    ) -> Sequence[Delivery] | None:
        """See ``Deliveries.claim``."""
        rows = await self._database.value(CLAIM, (self._channel, bridge, epoch, list(in_hand), limit))
        if rows is None:
            return None
        return [
            Delivery(
                id=UUID(row["id"]),
                conversation=row["conversation"],
                kind=row["kind"],
                body=row["body"],
                attempt=row["attempt"],
                run=UUID(row["run"]) if row["run"] else None,
            )
            for row in rows
        ]

    async def sent(self, delivery: Delivery, *, external_id: str) -> bool:
        """See ``Deliveries.sent``."""
        return bool(await self._database.value(SENT, (delivery.id, delivery.attempt, external_id)))

    async def put_off(self, delivery: Delivery, *, after: timedelta, reason: str) -> bool:
        """See ``Deliveries.put_off``."""
        return bool(await self._database.value(PUT_OFF, (delivery.id, delivery.attempt, after, reason)))

    async def fail(self, delivery: Delivery, *, reason: str) -> bool:
        """See ``Deliveries.fail``."""
        return bool(await self._database.value(FAILED, (delivery.id, delivery.attempt, reason)))

    async def doubt(self, delivery: Delivery, *, reason: str) -> bool:
        """See ``Deliveries.doubt``."""
        return bool(await self._database.value(DOUBT, (delivery.id, delivery.attempt, reason, IN_DOUBT)))

    async def doubt_abandoned(self) -> int:
        """See ``Deliveries.doubt_abandoned``."""
        count: int = await self._database.value(DOUBT_ABANDONED, (self._channel, BRIDGE_DIED, IN_DOUBT))
        return count

    async def again(self, notice: UUID, *, place: str) -> Again:
        """See ``Deliveries.again``."""
        answer: Again = await self._database.value(AGAIN, (notice, self._channel, place))
        return answer

    async def notice(self, id: UUID, conversation: str, *, text: str) -> bool:
        """See ``Deliveries.notice``."""
        body = to_json({"text": text})
        return bool(await self._database.value(NOTICE, (id, conversation, self._channel, body)))
