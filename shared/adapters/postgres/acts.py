"""Acts over Postgres: one function call, one commit; see ``0013_acts.sql`` and ``0017_children.sql``."""

from datetime import timedelta

from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.errors import LostClaim
from shared.ports.acts import Act, ActAnswer

ACT = "select lucyd_act(%s, %s, %s, %s, %s, %s, %s, %s::jsonb)"

PATIENCE = timedelta(seconds=60)
"""As for a step: the run that waits for it has been paid for."""


class PostgresActs:
    """``Acts`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def act(self, act: Act) -> ActAnswer:
        """See ``Acts.act``."""
        parameters = (
            act.worker,
            act.conversation,
            act.epoch,
            act.run,
            act.step,
            act.call_index,
            act.name,
            to_json(dict(act.arguments)),
        )
        row = await self._database.value(ACT, parameters, patience=PATIENCE)
        if row["status"] == "lost":
            raise LostClaim(act.conversation)
        said = row["said"] or {}
        return ActAnswer(
            said.get("text", ""),
            said.get("error"),
            tuple(said.get("wake") or ()),
            tuple(said.get("nudge") or ()),
            open="open" in said,
        )
