"""Servers of the Model Context Protocol, all of them together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.domain.attachment import Attachment
from shared.domain.mcp_server import ServerState
from shared.domain.mcp_tool import OfferedTool


class CallFailed(Exception):
    """The server gave no result; the message says why and is fit for a model."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server's tool answered, in words. ``is_error``: the tool says itself that it failed.

    ``images`` are those that models can see, in the order in which the words tell of them.
    """

    text: str
    is_error: bool = False
    images: Sequence[Attachment] = ()


class McpServers(Protocol):
    """Those that are configured; each comes and goes by itself."""

    def states(self) -> Sequence[ServerState]:
        """How each is doing, in the order of their names."""
        ...

    def tools(self) -> Sequence[OfferedTool]:
        """What is offered now, in a stable order."""
        ...

    async def call(self, tool: OfferedTool, arguments: Mapping[str, Any]) -> Answered:
        """Use a tool. Raises ``CallFailed`` when nothing came of it within the time that the server has."""
        ...
