"""Where the figures are kept."""

from pathlib import Path
from typing import Any

import orjson

OUT = Path(__file__).resolve().parent / "out"


def clear(out: Path) -> None:
    """Forget the last bench: what lies there is of one bench, also when this one comes to nothing."""
    out.mkdir(parents=True, exist_ok=True)
    for file in (*out.glob("raw-*.json"), out / "wrong.json", out / "bench.json"):
        file.unlink(missing_ok=True)


def keep(out: Path, name: str, value: Any) -> Path:
    """Write JSON and return where it is."""
    file = out / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 if name == "bench" else None) + b"\n")
    return file
