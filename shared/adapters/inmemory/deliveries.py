"""Deliveries, without a Postgres."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.tables import LIVING, Tables, as_json
from shared.domain.delivery import BRIDGE_DIED, IN_DOUBT, Delivery, DeliveryKind, DeliveryState, Reaction
from shared.domain.outgoing_file import OutgoingFile
from shared.ports.deliveries import Again


@dataclass(slots=True)
class DeliveryRow:
    """A row of ``deliveries``."""

    id: UUID
    conversation: str
    ordinal: int
    part: int
    kind: DeliveryKind
    body: dict[str, Any]
    due_at: datetime
    beside: bool = False
    state: DeliveryState = "pending"
    attempts: int = 0
    bridge: UUID | None = None
    external_id: str | None = None
    error: str | None = None


class InMemoryDeliveries:
    """``Deliveries`` of the ports. Rows stand in the order in which they were made."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.rows: dict[UUID, DeliveryRow] = {}
        self._leader: tuple[UUID, int] | None = None

    def add(
        self,
        id: UUID,
        conversation: str,
        *,
        ordinal: int,
        part: int,
        kind: DeliveryKind,
        text: str,
        file: OutgoingFile | None = None,
        reaction: Reaction | None = None,
    ) -> None:
        """Put in one part, as the end of a run does: a text, or a ``file``, or a ``reaction``."""
        brought = file or reaction
        body = brought.body() if brought else {"text": text}
        self.rows[id] = DeliveryRow(id, conversation, ordinal, part, kind, body, self._tables.clock.now())

    async def lead(self, bridge: UUID) -> int | None:
        """See ``Deliveries.lead``."""
        if not self._is_alive(bridge):
            return None
        if self._leader and self._leader[0] != bridge and self._is_alive(self._leader[0]):
            return None
        epoch = (self._leader[1] if self._leader else 0) + 1
        self._leader = (bridge, epoch)
        return epoch

    async def claim(
        self, *, bridge: UUID, epoch: int, in_hand: Collection[UUID], limit: int
    ) -> Sequence[Delivery] | None:
        """See ``Deliveries.claim``."""
        if not self._is_alive(bridge) or self._leader != (bridge, epoch):
            return None
        for row in self.rows.values():
            if row.state == "sending" and row.bridge == bridge and row.id not in in_hand:
                row.state, row.bridge = "pending", None
        due = [row for row in self._heads() if row.due_at <= self._tables.clock.now() and row.id not in in_hand]
        taken = sorted(due, key=lambda row: row.due_at)[:limit]
        for row in taken:
            row.state, row.bridge, row.attempts = "sending", bridge, row.attempts + 1
        return [Delivery(row.id, row.conversation, row.kind, as_json(row.body), row.attempts) for row in taken]

    async def sent(self, delivery: Delivery, *, external_id: str) -> bool:
        """See ``Deliveries.sent``."""
        row = self.rows[delivery.id]
        if row.attempts != delivery.attempt or row.state not in {"sending", "in_doubt", "sent"}:
            return False
        row.state, row.external_id, row.error = "sent", external_id, None
        notice = self.rows.get(_notice_id(row))
        if notice is not None and notice.state == "pending":
            notice.state = "dropped"
        return True

    async def put_off(self, delivery: Delivery, *, after: timedelta, reason: str) -> bool:
        """See ``Deliveries.put_off``."""
        if (row := self._held(delivery)) is None:
            return False
        row.state, row.bridge, row.error = "pending", None, reason
        row.due_at = self._tables.clock.now() + after
        return True

    async def fail(self, delivery: Delivery, *, reason: str) -> bool:
        """See ``Deliveries.fail``."""
        if (row := self._held(delivery)) is None:
            return False
        row.state, row.error = "failed", reason
        return True

    async def doubt(self, delivery: Delivery, *, reason: str) -> bool:
        """See ``Deliveries.doubt``."""
        if (row := self._held(delivery)) is None:
            return False
        self._put_in_doubt(row, reason)
        return True

    async def doubt_abandoned(self) -> int:
        """See ``Deliveries.doubt_abandoned``."""
        found = [row for row in self.rows.values() if row.state == "sending" and not self._is_living(row.bridge)]
        for row in found:
            self._put_in_doubt(row, BRIDGE_DIED)
        return len(found)

    async def again(self, notice: UUID, *, place: str) -> Again:
        """See ``Deliveries.again``."""
        told = self.rows.get(notice)
        if told is None or "again" not in told.body or not f"{told.conversation}:".startswith(f"{place}:"):
            return "unknown"
        row = self.rows[UUID(told.body["again"])]
        if row.state != "in_doubt" or row.attempts != told.body["attempt"]:
            return "used"
        row.state, row.bridge, row.due_at = "pending", None, self._tables.clock.now()
        return "again"

    async def notice(self, id: UUID, conversation: str, *, text: str) -> bool:
        """See ``Deliveries.notice``."""
        if id in self.rows:
            return False
        known = self._tables.conversations.get(conversation)
        ordinal = known.last_ordinal if known else 0
        now = self._tables.clock.now()
        self.rows[id] = DeliveryRow(id, conversation, ordinal, 0, "notice", {"text": text}, now, beside=True)
        return True

    def _heads(self) -> list[DeliveryRow]:
        """What stands first in each conversation that has nothing under way."""
        lines: dict[str, list[DeliveryRow]] = {}
        for row in self.rows.values():
            if row.state in {"pending", "sending"}:
                lines.setdefault(row.conversation, []).append(row)
        return [
            min(line, key=lambda row: (row.ordinal, row.part, row.beside))
            for line in lines.values()
            if all(row.state == "pending" for row in line)
        ]

    def _held(self, delivery: Delivery) -> DeliveryRow | None:
        row = self.rows[delivery.id]
        return row if row.state == "sending" and row.attempts == delivery.attempt else None

    def _put_in_doubt(self, row: DeliveryRow, reason: str) -> None:
        if "reaction" in row.body:  # done twice it is there once
            row.state, row.bridge, row.error, row.due_at = "pending", None, reason, self._tables.clock.now()
            return
        row.state, row.error = "in_doubt", reason
        if row.kind != "notice":
            id, body = _notice_id(row), {"text": IN_DOUBT, "again": str(row.id), "attempt": row.attempts}
            now = self._tables.clock.now()
            told = DeliveryRow(id, row.conversation, row.ordinal, row.part, "notice", body, now, beside=True)
            self.rows.setdefault(id, told)

    def _is_alive(self, bridge: UUID) -> bool:
        worker = self._tables.workers.get(bridge)
        return worker is not None and worker.state == "alive"

    def _is_living(self, bridge: UUID | None) -> bool:
        worker = self._tables.workers.get(bridge) if bridge else None
        return worker is not None and worker.state in LIVING


def _notice_id(row: DeliveryRow) -> UUID:
    name = f"{row.id}:{row.attempts}".encode()
    return UUID(hashlib.md5(name, usedforsecurity=False).hexdigest())
