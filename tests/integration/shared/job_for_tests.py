"""Jobs that the tests of the job worker call by name."""

import time
from pathlib import Path

import orjson


def write_down(argument: str) -> str:
    """Adds a line to a file, after a while if asked."""
    wish = orjson.loads(argument)
    time.sleep(wish.get("seconds", 0))
    with Path(wish["file"]).open("a", encoding="utf-8") as file:
        file.write(wish.get("line", "done") + "\n")
    return argument


def fail(_: str) -> str:
    """Fails."""
    raise ValueError("on purpose")
