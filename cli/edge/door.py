"""Opens the gateway for a command. The HTTP client is loaded here, not when the command line is read."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.edge.gateway_client import Gateway


@contextlib.contextmanager
def open_gateway(url: str | None, data_dir: Path | None = None) -> "Iterator[Gateway]":
    """The gateway at ``url``, or where ``find_address`` says. Raises ``Failure``."""
    from cli.edge.address import environment, find_address  # noqa: PLC0415 - `lucyd --help` needs no configuration
    from cli.edge.gateway_client import connect  # noqa: PLC0415 - nor an HTTP client, which takes 0.2 s to load

    with connect(find_address(url, environment(), data_dir)) as gateway:
        yield gateway
