"""How MCP servers are doing, and their tools, as lines and a table."""

from collections.abc import Sequence

from cli.rules.clean_text import one_line
from cli.rules.pieces import Piece
from cli.rules.table import Column, Table
from shared.domain.mcp_server import ServerState
from shared.domain.mcp_tool import OfferedTool

_SERVERS = (Column("Server"), Column("State"), Column("Tools", right=True), Column("About"))
_TOOLS = (Column("Tool"), Column("Effect"), Column("What it does"))
_LONGEST = 600
_SAID = {"up": "connected", "off": "off", "starting": "no answer yet", "away": "not connected"}


def servers_table(states: Sequence[ServerState]) -> Table:
    """One line for each server."""
    return Table(
        _SERVERS,
        [
            (state.name, _SAID[state.condition], str(state.tools), one_line(state.reason or state.about, 100))
            for state in states
        ],
    )


def tools_table(tools: Sequence[OfferedTool]) -> Table:
    """One line for each tool, by the name that the agent knows it by."""
    return Table(_TOOLS, [(tool.spec.name, tool.spec.effect, one_line(tool.spec.description, 70)) for tool in tools])


def checked_pieces(states: Sequence[ServerState]) -> list[Piece]:
    """A sentence for each server, and one for each tool that is not offered."""
    pieces = []
    for state in states:
        match state.condition:
            case "up":
                about = f" ({one_line(state.about, _LONGEST)})" if state.about else ""
                pieces.append(Piece(f"ok    {state.name}: connected{about}, tools: {state.tools}\n", "strong"))
            case "off":
                pieces.append(Piece(f"off   {state.name}: enabled = false\n"))
            case _:
                reason = one_line(state.reason, _LONGEST) or "it has not answered yet"
                pieces.append(Piece(f"fail  {state.name}: {reason}\n", "error"))
        for name, why in state.unfit.items():
            pieces.append(Piece(f"      {one_line(name)} is left out: {one_line(why, _LONGEST)}\n"))
    return pieces


def has_failed(states: Sequence[ServerState]) -> bool:
    """Whether any that should be connected is not."""
    return any(state.condition not in {"up", "off"} for state in states)
