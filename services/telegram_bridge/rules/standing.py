"""How the bridge stands, as operators see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Standing:
    """``idle``: no usable token; ``connecting``: Telegram was not reached yet; ``ready``: the bot is known."""

    state: Literal["idle", "connecting", "ready"]
    bot: str = ""

    def fields(self) -> Mapping[str, str]:
        """For the monitor."""
        return {"state": self.state, "bot": f"@{self.bot}" if self.bot else ""}
