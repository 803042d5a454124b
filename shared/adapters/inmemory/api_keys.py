"""Named API keys, without a Postgres."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared.domain.api_key import ApiKey, KeyScope
from shared.ports.api_keys import KeyRecord, Made
from shared.ports.clock import Clock


@dataclass(slots=True)
class KeyRow:
    """A row of ``api_keys``."""

    id: UUID
    name: str
    scopes: frozenset[KeyScope]
    hash: bytes
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


class InMemoryApiKeys:
    """``ApiKeys`` of the ports."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows: list[KeyRow] = []
        """The oldest first."""

    async def find(self, hashes: Collection[bytes]) -> Mapping[bytes, ApiKey]:
        """See ``KeyFinder.find``."""
        found = [row for row in self.rows if row.hash in hashes and row.revoked_at is None]
        for row in found:
            row.last_used_at = self._clock.now()
        return {row.hash: ApiKey(row.name, row.scopes) for row in found}

    async def make(
        self, id: UUID, name: str, *, scopes: Collection[KeyScope], hash: bytes, rotate: bool = False
    ) -> Made:
        """See ``ApiKeys.make``."""
        if any(row.id == id for row in self.rows):
            return "made"
        before = [row for row in self.rows if row.name == name]
        if not before and rotate:
            return "unknown"
        if before and not rotate:
            return "taken" if before[-1].revoked_at is None else "revoked"
        await self.revoke(name)
        given = frozenset(scopes) or before[-1].scopes
        self.rows.append(KeyRow(id, name, given, hash, self._clock.now()))
        return "made"

    async def revoke(self, name: str) -> bool:
        """See ``ApiKeys.revoke``."""
        good = [row for row in self.rows if row.name == name and row.revoked_at is None]
        for row in good:
            row.revoked_at = self._clock.now()
        return bool(good)

    async def all(self) -> Sequence[KeyRecord]:
        """See ``ApiKeys.all``."""
        rows = sorted(reversed(self.rows), key=lambda row: row.name)
        return [KeyRecord(row.name, row.scopes, row.created_at, row.last_used_at, row.revoked_at) for row in rows]
