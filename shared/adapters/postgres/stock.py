"""How much there is of what is under way and of what was given up, for the figures of operators."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

from shared.adapters.postgres.pool import Database

PATIENCE = timedelta(seconds=1)
MOST = 100_000
"""Counted of each kind at most. What is counted stands in small indexes of its own, however long the tables are."""

STOCK = f"""
select 'runs_open', state, count(*) from (
  select state from runs where state in ('accepted', 'running', 'waiting') limit {MOST}) o group by state
union all
select 'webhooks_open', state, count(*) from (
  select state from webhooks where state in ('pending', 'sending') limit {MOST}) o group by state
union all
select 'deliveries_open', state, count(*) from (
  select state from deliveries where state in ('pending', 'sending') limit {MOST}) o group by state
union all
select 'dead_letters', 'run', count(*) from (
  select 1 from runs where state = 'dead' and dismissed_at is null limit {MOST}) o
union all
select 'dead_letters', 'webhook', count(*) from (select 1 from webhooks where state = 'dead' limit {MOST}) o
union all
select 'dead_letters', 'delivery', count(*) from (
  select 1 from deliveries where state in ('failed', 'in_doubt') limit {MOST}) o
union all
select 'cost_today', currency, sum(cost) from costs where at >= date_trunc('day', now(), 'UTC') group by currency
"""  # noqa: S608 - the bound is ours

ALWAYS = {
    "runs_open": ("accepted", "running", "waiting"),
    "webhooks_open": ("pending", "sending"),
    "deliveries_open": ("pending", "sending"),
}
"""Told as 0 also where there is none: a figure that comes and goes can't be watched."""


class PostgresStock:
    """``Stock`` of the gateway's ports: ``runs_open``, ``webhooks_open`` and ``deliveries_open`` by state,
    ``dead_letters`` by kind, ``cost_today`` by currency."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def figures(self) -> Mapping[str, Mapping[str, int | Decimal]]:
        """See ``Stock.figures``."""
        told: dict[str, dict[str, int | Decimal]] = {name: dict.fromkeys(kinds, 0) for name, kinds in ALWAYS.items()}
        for name, kind, figure in await self._database.rows(STOCK, patience=PATIENCE):
            told.setdefault(name, {})[kind] = figure if name == "cost_today" else int(figure)
        return told
