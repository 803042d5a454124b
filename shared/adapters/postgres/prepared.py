"""Prepared messages in Postgres; see ``0018_prepared.sql``."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.domain.chat import ContentBlock
from shared.errors import LostClaim

KEEP = "select lucyd_prepared(%s, %s, %s, %s, %s, %s::jsonb)"

PATIENCE = timedelta(seconds=60)
"""As for a step: what was read may have been paid for."""


class PostgresPreparedMessages:
    """``PreparedMessages`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(
        self,
        conversation: str,
        *,
        worker: UUID,
        epoch: int,
        run: UUID,
        blob: UUID,
        content: Sequence[ContentBlock],
    ) -> None:
        """See ``PreparedMessages.keep``."""
        parameters = (worker, conversation, epoch, run, blob, to_json(list(content)))
        if await self._database.value(KEEP, parameters, patience=PATIENCE) == "lost":
            raise LostClaim(conversation)
