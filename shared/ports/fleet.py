"""Which workers live. Ownership hangs on this and not on clocks: a worker is dead when its beat stands still."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Identity:
    """A process, told apart from every other one that was or will be."""

    id: UUID
    service: str
    host: str
    boot_id: str
    pid: int
    pid_started: str
    version: str


@dataclass(frozen=True, slots=True)
class Peer:
    """A worker as others see it."""

    identity: Identity
    beat: int


class Fleet(Protocol):
    """The workers' rows. Only the beat itself has a road of its own: a thread with its own connection."""

    async def register(self, identity: Identity) -> None:
        """Add this worker; once for each id."""
        ...

    async def peers(self) -> Sequence[Peer]:
        """All workers that count as alive or draining, this one included."""
        ...

    async def fence(
        self, worker: UUID, *, beat: int | None, state: Literal["fenced", "stopped"]
    ) -> Sequence[str] | None:
        """End a worker if its beat still is ``beat`` (``None``: whatever it is); which conversations are free now.

        ``None``: this call has not ended it, for it has beaten meanwhile or had ended before.
        """
        ...

    async def drain(self, worker: UUID) -> None:
        """Say that this worker claims nothing any more."""
        ...
