"""Servers of the Model Context Protocol that no SDK would make: ``python -m tests.raw_mcp_server <manner>``.

They know only the older protocol, answer nothing that they don't know, and behave as their manner says.
"""

import json
import sys
import time
from typing import Any

PAGES: dict[str | None, tuple[list[str], str | None]] = {
    None: (["a", "b"], "2"),
    "2": (["c"], "3"),
    "3": (["d"], None),
}
HOSTILE: list[dict[str, Any]] = [
    {"name": "fine", "description": "\x1b[31mred\x00\u202e", "inputSchema": {"type": "object"}},
    {"name": "with space", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}},
    {"name": "../../etc/passwd", "inputSchema": {"type": "object"}},
    {"name": "x" * 500, "inputSchema": {"type": "object"}},
    {"name": "huge", "description": "y" * 100_000, "inputSchema": {"type": "object"}},
    {"name": "vast", "inputSchema": {"type": "object", "description": "z" * 50_000}},
    {"name": "odd", "inputSchema": {"type": "object", "properties": {"a b": {}}}},
    {"name": "fine", "description": "again", "inputSchema": {"type": "object"}},
]


def tool(name: str) -> dict[str, Any]:
    """One that takes nothing."""
    return {"name": name, "description": "Do it.", "inputSchema": {"type": "object", "properties": {}}}


class Server:
    """Reads lines and answers them."""

    def __init__(self, manner: str) -> None:
        self._manner = manner
        self._listed = 0

    def run(self) -> None:
        """Until nobody speaks to it any more."""
        self._begin()
        for line in sys.stdin:
            asked = json.loads(line)
            if "id" in asked:
                self._answer(asked["id"], asked["method"], asked.get("params") or {})

    def _begin(self) -> None:
        match self._manner:
            case "banner":
                write("Welcome to the server!")
                write("{ this is no JSON")
            case "rubbish":
                while True:
                    write("rubbish " * 20)
            case "endless":
                while True:
                    sys.stdout.write("x" * 65536)
            case "silent":
                time.sleep(1000)
            case "ends":
                sys.stderr.write("no such database\n")
                sys.exit(3)

    def _answer(self, id: Any, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                capabilities = {"tools": {"listChanged": True}}
                info = {"name": "raw", "version": "1"}
                say(id, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info})
            case "ping":
                if self._manner != "deaf":
                    say(id, {})
            case "tools/list":
                self._list(id, params)
            case "tools/call":
                self._call(id, params)
            case _:
                write(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "what?"}}))

    def _list(self, id: Any, params: dict[str, Any]) -> None:
        self._listed += 1
        if self._manner == "pages":
            names, cursor = PAGES[params.get("cursor")]
            say(id, {"tools": [tool(name) for name in names], **({"nextCursor": cursor} if cursor else {})})
        elif self._manner == "for_ever":
            say(id, {"tools": [tool(f"t{self._listed}")], "nextCursor": "more"})
        elif self._manner == "hostile":
            say(id, {"tools": HOSTILE})
        elif self._manner == "no_tools":
            say(id, {"tools": "none"})
        else:
            say(id, {"tools": [tool(name) for name in ("a", "b", "c")[: self._listed]]})

    def _call(self, id: Any, params: dict[str, Any]) -> None:
        match self._manner:
            case "changes":
                write(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
                say(id, {"content": [{"type": "text", "text": "changed"}]})
            case "refuses":
                error = {"code": -32000, "message": "not \x1b[1mtoday"}
                write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}))
            case "nonsense":
                say(id, {"content": "nothing", "isError": "perhaps"})
            case _:
                say(id, {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]})


def say(id: Any, result: Any) -> None:
    """A result."""
    write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}))


def write(line: str) -> None:
    """One line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Server(sys.argv[1]).run()
