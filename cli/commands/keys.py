"""``lucyd keys``: who may come in besides the operator."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from cli.commands.options import Config
from cli.edge.screen import Screen

Name = Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits, - and _; at most 63.")]


def create(
    name: Name,
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="What it may do: chat, read, admin; may be given again (default: chat, read).",
        ),
    ] = None,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Take the place of the key of this name, and its conversations.")
    ] = False,
    config: Config = None,
) -> None:
    """Make a key and print its secret, which is shown this once.

    A name has its conversations for good: it is given again, after it was revoked too, only with --rotate. The key
    before is good no more then, and its scopes are kept unless others are named.
    """
    from cli.actions.keep_keys import create_key, read_scopes  # noqa: PLC0415 - loads the drivers
    from cli.edge.own_database import find_database  # noqa: PLC0415 - loads the configuration
    from cli.wiring import with_keys  # noqa: PLC0415 - loads the drivers

    scopes, screen = read_scopes(scope or (), rotate=rotate), Screen(apart=True)
    with_keys(find_database(config), lambda keys: create_key(name, scopes, keys, screen, rotate=rotate))


def list_keys(config: Config = None) -> None:
    """List the keys there are and were, and what each may do. Secrets are not known any more."""
    from cli.actions.keep_keys import show_keys  # noqa: PLC0415 - loads the drivers
    from cli.edge.own_database import find_database  # noqa: PLC0415 - loads the configuration
    from cli.wiring import with_keys  # noqa: PLC0415 - loads the drivers

    with_keys(find_database(config), lambda keys: show_keys(keys, Screen()))


def revoke(name: Name, config: Config = None) -> None:
    """Let nobody in with this key any more; every gateway knows within two seconds."""
    from cli.actions.keep_keys import revoke_key  # noqa: PLC0415 - loads the drivers
    from cli.edge.own_database import find_database  # noqa: PLC0415 - loads the configuration
    from cli.wiring import with_keys  # noqa: PLC0415 - loads the drivers

    with_keys(find_database(config), lambda keys: revoke_key(name, keys, Screen()))


ORDERS: Mapping[str, Callable[..., None]] = {"create": create, "list": list_keys, "revoke": revoke}
