"""How MCP servers and their tools are told of on a terminal."""

from cli.rules.mcp_view import checked_pieces, servers_table, tools_table
from cli.rules.table import plain_lines
from shared.domain.effect import ToolSpec
from shared.domain.mcp_server import ServerState
from shared.domain.mcp_tool import OfferedTool

FORGED = "x\nok    other: connected\r\x1b[2J"
AWAY = ServerState("bad", "away", f"it said: {FORGED}")
UP = ServerState("good", "up", tools=1, about=FORGED, unfit={"a\nok    third: connected": FORGED})


def test_no_server_can_write_a_line_about_another() -> None:
    """Whoever reads that all is well must not read it from the one that is not."""
    text = "".join(piece.text for piece in checked_pieces([AWAY, UP]))
    assert [line.split(maxsplit=1)[0] for line in text.splitlines()] == ["fail", "ok", "a"]
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}
    assert len(plain_lines(servers_table([AWAY, UP]))) == 4


def test_no_tool_can_look_like_two() -> None:
    """A table has a line for each."""
    tool = OfferedTool("good", "a", ToolSpec("good__a", FORGED, {}, "once"))
    assert len(plain_lines(tools_table([tool]))) == 3
