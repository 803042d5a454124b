"""Memory in Postgres, found by its words; see ``0015_memory.sql``."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from shared.adapters.postgres.pool import Database
from shared.domain.memory import Commitment, Episode, Fact, Passage
from shared.domain.person import Identity

# Materialized: the words of a query are made once, and not once for each row.
FACTS = """
with asked as materialized (select lucyd_person(%s, %s) as person, lucyd_any_of(%s) as words),
named as (
  select unnest(%s::text[]) as entity
  union select a.canonical from entity_aliases a, asked where a.person = asked.person and a.alias = any(%s::text[])
),
found as (
  select f.id, f.entity, f.attribute, f.value, f.confidence, f.updated_at,
         f.entity in (select entity from named) as named, coalesce(ts_rank(f.lexemes, asked.words), 0) as rank
  from facts f, asked
  where f.person = asked.person and f.invalidated_at is null
    and (f.entity in (select entity from named) or f.lexemes @@ asked.words)
  order by named desc, f.confidence desc, rank desc, f.updated_at desc, f.id
  limit %s
),
read as (
  update facts set accessed_at = now() where id in (
    select id from facts where id in (select id from found) and accessed_at < now() - interval '1 minute'
    for no key update skip locked)
)
select entity, attribute, value, confidence from found
order by named desc, confidence desc, rank desc, updated_at desc, id
"""
EPISODES = """
with asked as materialized (select lucyd_person(%s, %s) as person, lucyd_any_of(%s) as words)
select e.at, e.summary, e.topics, e.decisions, e.emotional_tone
from episodes e, asked
where e.person = asked.person and e.lexemes @@ asked.words
order by e.at desc, e.id desc limit %s
"""
COMMITMENTS = """
select id, who, what, deadline from commitments
where person = lucyd_person(%s, %s) and status = 'open'
order by deadline nulls last, id limit %s
"""
PASSAGES = """
with asked as materialized (select lucyd_any_of(%s) as words)
select c.path, c.start_line, c.end_line, c.text
from chunks c, asked
where c.lexemes @@ asked.words
order by ts_rank(c.lexemes, asked.words) desc, c.path, c.start_line limit %s
"""
LINES = """
select path, start_line, end_line, text from chunks
where path = %s and start_line <= %s and end_line >= %s
order by start_line limit %s
"""

PATIENCE = timedelta(seconds=10)


class PostgresMemory:
    """``Memory`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def facts(self, whose: Identity, query: str, names: Collection[str], *, limit: int) -> Sequence[Fact]:
        """See ``Memory.facts``."""
        named = [_held(name) for name in names]
        rows = await self._ask(FACTS, whose.name, whose.person, _held(query), named, named, limit)
        return [Fact(*row) for row in rows]

    async def episodes(self, whose: Identity, query: str, *, limit: int) -> Sequence[Episode]:
        """See ``Memory.episodes``."""
        return [Episode(*row) for row in await self._ask(EPISODES, whose.name, whose.person, _held(query), limit)]

    async def commitments(self, whose: Identity, *, limit: int) -> Sequence[Commitment]:
        """See ``Memory.commitments``."""
        return [Commitment(*row) for row in await self._ask(COMMITMENTS, whose.name, whose.person, limit)]

    async def passages(self, query: str, *, limit: int) -> Sequence[Passage]:
        """See ``Memory.passages``."""
        return [Passage(*row) for row in await self._ask(PASSAGES, _held(query), limit)]

    async def lines(self, path: str, first: int, last: int, *, limit: int) -> Sequence[Passage]:
        """See ``Memory.lines``."""
        return [Passage(*row) for row in await self._ask(LINES, _held(path), last, first, limit)]

    async def _ask(self, query: str, *parameters: Any) -> Sequence[tuple[Any, ...]]:
        return await self._database.rows(query, parameters, patience=PATIENCE)


def _held(text: str) -> str:
    """The text without what no text of Postgres holds: NUL, and half characters."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
