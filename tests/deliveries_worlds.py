"""The two stores of deliveries that the contract is asked of, and how a test looks into them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.deliveries import InMemoryDeliveries
from shared.adapters.inmemory.fleet import InMemoryFleet
from shared.adapters.inmemory.tables import Tables
from shared.adapters.postgres.deliveries import PostgresDeliveries
from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.fleet import PostgresFleet
from shared.adapters.postgres.pool import Database
from shared.domain.delivery import DeliveryKind, Reaction
from shared.domain.outgoing_file import OutgoingFile
from shared.ids import new_id
from shared.ports.deliveries import Deliveries
from shared.ports.fleet import Fleet
from tests.builders import identity

CHAT = "telegram:7"
INSERT = """
insert into deliveries (id, conversation, channel, ordinal, part, kind, body)
values (%s, %s, %s, %s, %s, %s, %s::jsonb)
"""
STORED = "select conversation, state, kind, body, error, external_id from deliveries where id = %s"


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A row as a test sees it."""

    conversation: str
    state: str
    kind: str
    body: Mapping[str, Any]
    error: str | None
    external_id: str | None


class DeliveriesWorld(ABC):
    """The deliveries of channel telegram, and who lives."""

    def __init__(self, deliveries: Deliveries, fleet: Fleet) -> None:
        self.deliveries = deliveries
        self.fleet = fleet

    async def hire(self) -> UUID:
        bridge = identity(service="telegram_bridge")
        await self.fleet.register(bridge)
        return bridge.id

    @abstractmethod
    async def wait(self, seconds: float) -> None:
        """Let time pass for the store."""

    @abstractmethod
    async def put(
        self,
        text: str,
        *,
        conversation: str = CHAT,
        ordinal: int = 1,
        part: int = 1,
        kind: DeliveryKind = "reply",
        file: OutgoingFile | None = None,
        reaction: Reaction | None = None,
    ) -> UUID:
        """Add one part, as the end of a run does."""

    @abstractmethod
    async def stored(self, id: UUID) -> StoredDelivery:
        """One row."""


class InMemoryDeliveriesWorld(DeliveriesWorld):
    """Over dictionaries; time passes when it is told to."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        tables = Tables(self._clock)
        self._deliveries = InMemoryDeliveries(tables)
        super().__init__(self._deliveries, InMemoryFleet(tables))

    async def wait(self, seconds: float) -> None:
        self._clock.advance(seconds)

    async def put(
        self,
        text: str,
        *,
        conversation: str = CHAT,
        ordinal: int = 1,
        part: int = 1,
        kind: DeliveryKind = "reply",
        file: OutgoingFile | None = None,
        reaction: Reaction | None = None,
    ) -> UUID:
        id = new_id()
        self._deliveries.add(
            id, conversation, ordinal=ordinal, part=part, kind=kind, text=text, file=file, reaction=reaction
        )
        return id

    async def stored(self, id: UUID) -> StoredDelivery:
        row = self._deliveries.rows[id]
        return StoredDelivery(row.conversation, row.state, row.kind, row.body, row.error, row.external_id)


class PostgresDeliveriesWorld(DeliveriesWorld):
    """Over Postgres; time passes by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        super().__init__(PostgresDeliveries(database, channel="telegram"), PostgresFleet(database))

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def put(
        self,
        text: str,
        *,
        conversation: str = CHAT,
        ordinal: int = 1,
        part: int = 1,
        kind: DeliveryKind = "reply",
        file: OutgoingFile | None = None,
        reaction: Reaction | None = None,
    ) -> UUID:
        id = new_id()
        brought = file or reaction
        body = to_json(brought.body() if brought else {"text": text})
        await self._database.rows(INSERT, (id, conversation, "telegram", ordinal, part, kind, body))
        return id

    async def stored(self, id: UUID) -> StoredDelivery:
        (row,) = await self._database.rows(STORED, (id,))
        return StoredDelivery(*row)
