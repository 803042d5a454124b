"""Servers of the Model Context Protocol that no SDK would make: ``python -m tests.raw_mcp_server <manner>``.

They know only the older protocol, answer nothing that they don't know, and behave as their manner says.
"""

import json
import os
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


def leaking(secret: str) -> list[dict[str, Any]]:
    """Tools that quote it wherever a tool has text."""
    quoting = {"type": "string", "default": secret, "description": f"like {secret}", "enum": [secret, "b"]}
    schema = {"type": "object", "description": secret, "properties": {"how": {"type": "string"}, "x": quoting}}
    return [
        {"name": "fine", "description": f"y {secret}", "inputSchema": schema},
        {"name": "f" * 90 + secret, "inputSchema": {"type": "object"}},
        {"name": "keyed", "inputSchema": {"type": "object", "properties": {secret: {}}}},
        {"name": "deep", "inputSchema": {"type": "object", "$defs": {secret: {"const": secret}}}},
    ]


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
            case "leaks":
                for room in (390, 399, 16_380):
                    sys.stderr.write("x" * room + os.environ["ITS_TOKEN"] + "\n")
                sys.stderr.write((os.environ["ITS_TOKEN"] + "|") * 2000 + "\n")
                sys.stderr.flush()
            case "ends":
                sys.stderr.write("no such database\n")
                sys.exit(3)

    def _answer(self, id: Any, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                capabilities = {"tools": {"listChanged": True}}
                info = {"name": "raw", "version": "1"}
                if self._manner == "leaks":
                    info["name"] = f"{os.environ['ITS_TOKEN']}\nok    other: connected\u202e\x1b[2J"
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
        elif self._manner == "leaks":
            say(id, {"tools": leaking(os.environ["ITS_TOKEN"])})
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
            case "leaks":
                self._leak(id, params["arguments"].get("how"))
            case "nonsense":
                say(id, {"content": "nothing", "isError": "perhaps"})
            case _:
                say(id, {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]})

    def _leak(self, id: Any, how: Any) -> None:
        """The secret in a result, in the way that is asked for."""
        secret = os.environ["ITS_TOKEN"]
        texts = {
            "text": secret,
            "escaped": json.dumps({"token": secret}),
            "parted": f"{secret[:5]}\x1b[0m{secret[5:9]}\u202e{secret[9:]}",
            "control": "\x1b[31mred\x1b[0m \x1b]0;title\x07\x00\u202eevil\u202c\x9b2J\ra\r\nb\tc",
        }
        match how:
            case "structured":
                say(id, {"content": [], "structuredContent": {"env": [{"T": secret, f"<{secret}>": secret}]}})
            case "links":
                far = f"file:///{'d' * 185}{secret}"
                link = {"type": "resource_link", "uri": far, "name": "n" * 195 + secret}
                blob = {"type": "resource", "resource": {"uri": far, "mimeType": "m" * 195 + secret, "blob": "AA=="}}
                text = {"type": "resource", "resource": {"uri": far, "text": secret}}
                sound = {"type": "audio", "mimeType": "m" * 195 + secret, "data": "AA=="}
                say(id, {"content": [link, blob, text, sound]})
            case "error":
                write(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "n" * 490 + secret}}))
            case _:
                say(id, {"content": [{"type": "text", "text": texts[how]}]})


def say(id: Any, result: Any) -> None:
    """A result."""
    write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}))


def write(line: str) -> None:
    """One line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Server(sys.argv[1]).run()
