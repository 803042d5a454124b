"""Named API keys in their table; ``lucyd_make_key`` is in ``0008_api_keys.sql``."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.domain.api_key import ApiKey, KeyScope
from shared.ports.api_keys import KeyRecord, Made

LOOK_WITHIN = timedelta(seconds=1)

# That a key was used is noted every five minutes, so that looking it up hardly ever writes. Another gateway that notes
# it at this moment is not waited for.
FIND = """
with used as (
  update api_keys set last_used_at = now() where id in (
    select id from api_keys where hash = any(%s::bytea[]) and revoked_at is null
      and (last_used_at is null or last_used_at < now() - interval '5 minutes')
    for no key update skip locked)
)
select hash, name, scopes from api_keys where hash = any(%s::bytea[]) and revoked_at is null
"""
MAKE = "select lucyd_make_key(%s, %s, %s::text[], %s, %s)"
REVOKE = "update api_keys set revoked_at = now() where name = %s and revoked_at is null returning 1"
ALL = """
select name, scopes, created_at, last_used_at, revoked_at from api_keys
order by name, revoked_at is null desc, revoked_at desc, id desc
"""


class PostgresApiKeys:
    """``ApiKeys`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, hashes: Collection[bytes]) -> Mapping[bytes, ApiKey]:
        """See ``KeyFinder.find``."""
        rows = await self._database.rows(FIND, (list(hashes), list(hashes)), patience=LOOK_WITHIN)
        return {bytes(hash): ApiKey(name, frozenset(scopes)) for hash, name, scopes in rows}

    async def make(
        self, id: UUID, name: str, *, scopes: Collection[KeyScope], hash: bytes, rotate: bool = False
    ) -> Made:
        """See ``ApiKeys.make``."""
        made: Made = await self._database.value(MAKE, (id, name, sorted(scopes), hash, rotate))
        return made

    async def revoke(self, name: str) -> bool:
        """See ``ApiKeys.revoke``."""
        return bool(await self._database.rows(REVOKE, (name,)))

    async def all(self) -> Sequence[KeyRecord]:
        """See ``ApiKeys.all``."""
        rows = await self._database.rows(ALL)
        return [KeyRecord(name, frozenset(scopes), *times) for name, scopes, *times in rows]
