"""A server of the Model Context Protocol for tests, made with the SDK: ``python -m tests.mcp_server [http PORT]``."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, EmbeddedResource, TextContent, TextResourceContents, ToolAnnotations
from pydantic import Field

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)

server = MCPServer("testing", version="1.2.3", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def echo(text: Annotated[str, Field(description="What to say.")], times: int = 1) -> str:
    """Say it again."""
    return " ".join([text] * times)


@server.tool(structured_output=False)
def fail(why: str) -> str:
    """Fail, and say why."""
    raise ToolError(why)


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """An image between two texts, a sound and a text of a file."""
    resource = TextResourceContents(uri="file:///notes.txt", text="what stands in it")
    return [
        TextContent(text="before"),
        Image(data=PIXEL, format="png"),
        AudioContent(data="AAAA", mime_type="audio/wav"),
        EmbeddedResource(resource=resource),
        TextContent(text="after"),
    ]


@server.tool()
async def slow(seconds: float, mark: str = "") -> str:
    """Take a while; ``mark`` is a file that tells how it ended."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if mark:
            Path(mark).write_text("cancelled", "utf-8")
        raise
    return "at last"


@server.tool()
def die() -> str:
    """End in the middle of the call."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def variable(name: str) -> str:
    """A variable of its environment."""
    return os.environ.get(name, "(not set)")


@server.tool()
def child() -> int:
    """Leave a process behind, in a group of its own."""
    return subprocess.Popen(["/bin/sleep", "300"], process_group=0).pid


@server.tool()
def me() -> int:
    """Its own process."""
    return os.getpid()


@server.tool()
def complain(line: str) -> str:
    """Say something on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
    return "said"


@server.tool()
async def grow(context: Context) -> str:
    """Have one more tool from now on, and tell so."""
    server.add_tool(echo, name="grown")
    await context.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
