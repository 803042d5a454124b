"""Where the figures are kept."""

from pathlib import Path
from typing import Any

import orjson

OUT = Path(__file__).resolve().parent / "out"


def clear_raw(out: Path) -> None:
    """Forget the raw data of the last bench: what lies there is of one bench."""
    out.mkdir(parents=True, exist_ok=True)
    for file in out.glob("raw-*.json"):
        file.unlink()


def keep(out: Path, name: str, value: Any) -> Path:
    """Write JSON and return where it is."""
    file = out / f"{name}.json"
    file.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 if name == "bench" else None) + b"\n")
    return file
