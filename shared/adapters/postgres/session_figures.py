"""What ``session_status`` tells the agent about its own session."""

from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.ports.clock import Clock
from shared.ports.history import SessionStatus

FIGURES = """
select s.context_tokens, s.compaction_count,
       (select count(*) from messages m where m.session = s.id and m.ordinal >= s.live_from and not m.dropped),
       coalesce(c.cost, 0), coalesce(c.tokens, 0)::bigint
from sessions s
left join lateral (
  select sum(cost) as cost, sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) as tokens
  from costs where at >= date_trunc('day', now(), 'UTC')
) c on true
where s.id = %s
"""


class PostgresSessionFigures:
    """Figures as last stored; ``context_limit`` is that of the primary model, in tokens (0: unknown)."""

    def __init__(self, database: Database, clock: Clock, *, context_limit: int, currency: str) -> None:
        self._database = database
        self._clock = clock
        self._started = clock.monotonic()
        self._context_limit = context_limit
        self._currency = currency

    async def status(self, session_id: UUID) -> SessionStatus:
        """The figures of one session."""
        context, compactions, messages, cost, tokens = (await self._database.rows(FIGURES, (session_id,)))[0]
        return SessionStatus(
            context_tokens=context,
            context_limit=self._context_limit,
            message_count=messages,
            compaction_count=compactions,
            today_cost=cost,
            today_tokens=tokens,
            currency=self._currency,
            uptime=timedelta(seconds=self._clock.monotonic() - self._started),
        )
