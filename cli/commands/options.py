"""Options that several commands have."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="Address of the gateway (default: LUCYD_URL, else where `lucyd up` runs here)."
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="PATH", help="lucyd.toml (default: LUCYD_CONFIG).")
]
Sender = Annotated[str | None, typer.Option("--sender", metavar="NAME", help="The name the message comes from.")]
Thinking = Annotated[bool, typer.Option("--thinking", help="Show the agent's thoughts too, dimmed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the gateway's answer as JSON.")]


def print_json(answer: Mapping[str, Any]) -> None:
    """Print an answer for programs; amounts of money are numbers again."""
    print(json.dumps(answer, default=float, ensure_ascii=False, indent=2))
