"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

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
