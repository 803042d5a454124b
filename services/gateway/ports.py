"""What only the gateway needs: a look at what the processes say of themselves."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class MonitorBoard(Protocol):
    """The monitor keys, as they are now."""

    async def sessions(self) -> Sequence[Mapping[str, str]]:
        """What is going on in conversations. Raises ``TryLater``."""
        ...

    async def processes(self) -> Sequence[Mapping[str, str]]:
        """The processes that live. Raises ``TryLater``."""
        ...
