"""Sessions and how far they were consolidated."""

from collections.abc import Sequence
from datetime import timedelta

from shared.adapters.postgres.history import no_child
from shared.adapters.postgres.pool import Database
from shared.ports.backlog import SessionLine, Watermark

# The first condition is cheap and leaves out the many small sessions; counting then finds dropped rows too. What a
# sub-agent has found out stands in the session of the run that asked.
LINES = f"""
select s.id, s.compaction_count, n.messages, c.last_compaction_count, c.last_message_count
from sessions s left join consolidation_state c on c.session = s.id
cross join lateral (
  select count(*) + case when s.summary is null then 0 else 1 end as messages
  from messages m where m.session = s.id and m.ordinal >= s.live_from and not m.dropped
) n
where s.last_ordinal - s.live_from + 2 >= %s and n.messages >= %s and {no_child("s.conversation")}
  and (c.session is null or c.last_compaction_count <> s.compaction_count or c.last_message_count < n.messages)
order by s.updated_at desc limit %s
"""  # noqa: S608 - all of it is ours
PATIENCE = timedelta(seconds=10)


class PostgresBacklog:
    """``Backlog`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lines(self, *, at_least: int, limit: int) -> Sequence[SessionLine]:
        """See ``Backlog.lines``."""
        rows = await self._database.rows(LINES, (at_least, at_least, limit), patience=PATIENCE)
        return [
            SessionLine(session, compactions, messages, None if past is None else Watermark(past, seen))
            for session, compactions, messages, past, seen in rows
        ]
