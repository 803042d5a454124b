"""The workspace of the bench: files that make the system prompt as long as was chosen."""

from pathlib import Path

import orjson

from bench.wire import Wire

PROMPT_BYTES = 4096
FIRST_LENGTH = 2000
"""Of the file, before anybody knows what the rest of the prompt is long."""

_FILE = "SOUL.md"
_LINE = "You answer in plain words, look before you act, and say what you do not know.\n"


def write_personality(workspace: Path, length: int) -> None:
    """Write the one file of the agent's personality, with so many bytes."""
    (workspace / _FILE).write_text((_LINE * (length // len(_LINE) + 1))[:length].strip() or "-", "utf-8")


def length_for(shown: int, length: int) -> int:
    """How long the file must be, when a prompt of ``shown`` bytes came of one of ``length``."""
    return max(1, length + PROMPT_BYTES - shown)


def measure_request(wire: Wire, body: bytes) -> tuple[int, int]:
    """The bytes of the system prompt in a request and the number of messages before the last one."""
    request = orjson.loads(body)
    messages = request["messages"]
    if wire == "openai":
        system = [message["content"] for message in messages if message["role"] == "system"]
        messages = [message for message in messages if message["role"] != "system"]
    else:
        blocks = request.get("system", [])
        system = [blocks] if isinstance(blocks, str) else [block["text"] for block in blocks]
    return sum(len(text.encode()) for text in system), len(messages) - 1
