"""Being the only one that does something."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Term(Protocol):
    """A time of leadership."""

    async def lost(self) -> None:
        """Return as soon as the leadership can't be counted on any more."""
        ...


class Leadership(Protocol):
    """At most one process leads."""

    def term(self) -> AbstractAsyncContextManager[Term | None]:
        """Try once to lead, for as long as the block lasts; ``None`` while another leads.

        Raises ``TryLater`` when Postgres is away.
        """
        ...
