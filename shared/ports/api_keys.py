"""Named API keys: made and revoked by the operator's command, looked up by gateways."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from shared.domain.api_key import ApiKey, KeyScope

Made = Literal["made", "taken", "revoked", "unknown"]


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as it stands in the list. ``last_used_at`` is true to within a few minutes."""

    name: str
    scopes: frozenset[KeyScope]
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class KeyFinder(Protocol):
    """What gateways ask."""

    async def find(self, hashes: Collection[bytes]) -> Mapping[bytes, ApiKey]:
        """The keys of these secrets, by the hash of each; only those that are good now. Raises ``TryLater``."""
        ...


class ApiKeys(KeyFinder, Protocol):
    """What the operator does. All raise ``TryLater``; all may be called twice."""

    async def make(
        self, id: UUID, name: str, *, scopes: Collection[KeyScope], hash: bytes, rotate: bool = False
    ) -> Made:
        """Make a key under a name that never had one.

        ``taken``, ``revoked``: the name has a good key, or had one once, and nothing was changed. ``rotate``: the new
        key takes the place of those before, and their conversations; without ``scopes`` it has those of the last.
        ``unknown``: there was none before.
        """
        ...

    async def revoke(self, name: str) -> bool:
        """Let nobody in with it any more. False: there is no good key of this name."""
        ...

    async def all(self) -> Sequence[KeyRecord]:
        """Every key there ever was, by name, the newest of each name first."""
        ...
