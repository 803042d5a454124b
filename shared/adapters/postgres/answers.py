"""What was answered to work under an idempotency key; ``lucyd_begin_work`` is in ``0011_runs_listed.sql``."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import psycopg

from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.domain.run import IdempotencyKey
from shared.errors import Conflict

BEGIN = "select lucyd_begin_work(%s, %s, %s, %s, %s)"
END = """
update idempotency set answer = coalesce(answer, %s::jsonb) where scope = %s and key = %s and body_hash = %s
returning answer
"""


class PostgresAnswers:
    """``Answers`` of the gateway's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, key: IdempotencyKey, id: UUID) -> tuple[UUID, Mapping[str, Any] | None]:
        """See ``Answers.begin``."""
        try:
            row = await self._database.value(BEGIN, (key.scope, key.key, key.body_hash, id, key.lives))
        except psycopg.Error as fault:
            if fault.sqlstate == "LU002":
                raise Conflict("this idempotency key was used with another body") from fault
            raise
        return UUID(row["id"]), row["answer"]

    async def end(self, key: IdempotencyKey, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """See ``Answers.end``."""
        stored = await self._database.value(END, (to_json(answer), key.scope, key.key, key.body_hash))
        return stored if stored is not None else answer  # it took longer than its key lives
