"""Lucyd as a server of the Model Context Protocol over standard input and output.

Other agents may talk with it, and search what it remembers.
"""

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import Field

from cli.rules.failure import Failure
from cli.rules.memory_view import memory_text
from cli.rules.teller import failure_of

Ask = Callable[[str, str], str]
"""Sends a message to the conversation of a sender, awaits its end, and gives the gateway's JSON."""

Search = Callable[[str, str, int], Mapping[str, Any]]
"""Finds what is remembered of a sender, of each kind at most so much."""

DEFAULT_SENDER = "mcp"

_ABOUT = "Talk with the agent Lucyd: it has memory, tools and schedules of its own, and answers in words."
_CHAT = (
    "Send a message to the agent and wait for its reply. Messages of one sender are one conversation: the agent "
    "remembers what was said in it. When the agent asks whether it may do something, the next message of that sender "
    "is the answer."
)
_MEMORY = (
    "Search what the agent remembers: facts, earlier conversations, open commitments, and the files of its workspace. "
    "This asks no model. What a sender told is found for that sender."
)
LONGEST_QUERY = 2000
MOST_FOUND = 100


def mcp_server(ask: Ask, search: Search) -> MCPServer:
    """The server, with its tools."""
    server = MCPServer("lucyd", instructions=_ABOUT, version=version("lucyd"), log_level="ERROR")

    @server.tool(description=_CHAT, structured_output=False)  # in a thread of its own, as it does not await
    def chat(
        message: Annotated[str, Field(description="What to say to the agent.", min_length=1)],
        sender: Annotated[
            str, Field(description="Whose conversation it belongs to.", min_length=1, max_length=200)
        ] = DEFAULT_SENDER,
    ) -> CallToolResult:
        try:
            told = json.loads(ask(message, sender))
        except Failure as fault:
            raise ToolError(str(fault)) from fault
        if told.get("error"):
            raise ToolError(failure_of(told))
        reply = str(told.get("reply") or "(the agent did not say anything)")
        about = {name: told.get(name) for name in ("session_id", "run_id") if told.get(name)}
        return CallToolResult(content=[TextContent(text=reply)], structured_content={"reply": reply, **about})

    @server.tool(description=_MEMORY, structured_output=False)
    def memory_search(
        query: Annotated[
            str, Field(description="Names and words to look for.", min_length=1, max_length=LONGEST_QUERY)
        ],
        limit: Annotated[int, Field(description="Of each kind at most so many.", ge=1, le=MOST_FOUND)] = 10,
        sender: Annotated[str, Field(description="Whose memory.", min_length=1, max_length=200)] = DEFAULT_SENDER,
    ) -> CallToolResult:
        try:
            found = search(query, sender, limit)
        except Failure as fault:
            raise ToolError(str(fault)) from fault
        data = {kind: found.get(kind, []) for kind in ("facts", "episodes", "passages", "commitments")}
        structured = json.loads(json.dumps(data, default=float))  # fractions came as decimals
        return CallToolResult(content=[TextContent(text=memory_text(found))], structured_content=structured)

    return server


def serve(ask: Ask, search: Search) -> None:
    """Serve until standard input ends."""
    mcp_server(ask, search).run("stdio")
