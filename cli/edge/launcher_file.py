"""``launcher.json``: what a running ``lucyd up`` left in the data directory for the tools of its user."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from cli.edge.surroundings import is_alive

NAME = "launcher.json"


@dataclass(frozen=True, slots=True)
class Launcher:
    """Where a launcher serves. The addresses of the servers hold passwords."""

    http: str
    database_url: str | None = field(default=None, repr=False)
    redis_url: str | None = field(default=None, repr=False)


def read_launcher(data_dir: Path) -> Launcher | None:
    """The launcher that runs on this data directory; ``None`` when none does, or a killed one left its file behind."""
    try:
        known = json.loads((data_dir / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or not isinstance(known.get("http"), str):
        return None
    pid = known.get("pid")
    if isinstance(pid, int) and pid > 0 and not is_alive(pid):
        return None
    return Launcher(known["http"], _text(known.get("database_url")), _text(known.get("redis_url")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
