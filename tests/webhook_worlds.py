"""The two stores of webhooks that the contract is asked of, and how a test looks into them."""

import asyncio
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import orjson

from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.webhooks import InMemoryWebhooks
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.webhooks import PostgresWebhooks
from shared.ids import new_id
from shared.ports.webhooks import Webhooks
from tests.builders import new_run


class Look(NamedTuple):
    """How a webhook stands."""

    state: str
    attempts: int
    status: int | None
    error: str | None


class WebhookWorld(Protocol):
    webhooks: Webhooks

    async def make(self, target: str = "callback", **body: Any) -> UUID: ...

    async def look(self, webhook: UUID) -> Look: ...

    async def drop(self, webhook: UUID) -> None: ...

    async def wait(self, seconds: float) -> None: ...


class InMemoryWebhookWorld:
    """Over a dictionary; time passes when it is told to."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._store = InMemoryWebhooks(self._clock)
        self.webhooks: Webhooks = self._store

    async def make(self, target: str = "callback", **body: Any) -> UUID:
        return self._store.make(new_id(), target, body)

    async def look(self, webhook: UUID) -> Look:
        row = self._store.rows[webhook]
        return Look(row.state, row.attempts, row.last_status, row.error)

    async def drop(self, webhook: UUID) -> None:
        self._store.rows[webhook].state = "dropped"

    async def wait(self, seconds: float) -> None:
        self._clock.advance(seconds)


class PostgresWebhookWorld:
    """Over Postgres; time passes by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.webhooks: Webhooks = PostgresWebhooks(database)

    async def make(self, target: str = "callback", **body: Any) -> UUID:
        run = new_run()
        await PostgresInbox(self._database).accept(run)
        made: UUID = await self._database.value(
            "insert into webhooks (run, target, body) values (%s, %s, %s::jsonb) returning id",
            (run.id, target, orjson.dumps(body).decode()),
        )
        return made

    async def look(self, webhook: UUID) -> Look:
        query = "select state, attempts, last_status, error from webhooks where id = %s"
        return Look(*(await self._database.rows(query, (webhook,)))[0])

    async def drop(self, webhook: UUID) -> None:
        await self._database.rows("update webhooks set state = 'dropped' where id = %s", (webhook,))

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
