"""Listening sockets: bound here, or handed to this process by whoever started it. Loads no web server."""

import os
import socket
from collections.abc import Mapping

from shared.errors import ConfigError

BACKLOG = 1024

GIVEN = "LUCYD_HTTP_FD"
"""Names the descriptor of a listening socket that whoever starts us has bound and goes on holding."""

_FIRST_OF_SYSTEMD = 3


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ``ConfigError`` when the port is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for only then does the event loop turn off Nagle's delay on what it accepts.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as fault:
        listener.close()
        raise ConfigError([f"Port {port} on {host} can't be used ({fault.strerror}); set LUCYD_HTTP_PORT."]) from fault
    listener.settimeout(0)
    return listener


def given_listener(environment: Mapping[str, str]) -> socket.socket | None:
    """The listening socket that was handed to this process, so that its queue outlives us; ``None``: there is none.

    ``LUCYD_HTTP_FD`` counts first, then socket activation as systemd does it (``LISTEN_FDS``, ``LISTEN_PID``). Raises
    ``ConfigError`` for a descriptor that is no listening TCP socket.
    """
    name = GIVEN
    number = environment.get(GIVEN, "")
    if not number:
        if environment.get("LISTEN_PID") != str(os.getpid()) or environment.get("LISTEN_FDS", "0") == "0":
            return None
        name, number = "LISTEN_FDS", str(_FIRST_OF_SYSTEMD)
    try:
        listener = socket.socket(fileno=int(number))
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        listens = listens and listener.family in {socket.AF_INET, socket.AF_INET6}
    except (ValueError, OverflowError, OSError) as fault:
        raise ConfigError([f"{name} names no socket that this process holds ({number})."]) from fault
    if not listens:
        listener.close()
        raise ConfigError([f"{name} names a socket that does not listen for TCP ({number})."])
    listener.set_inheritable(False)
    listener.settimeout(0)
    return listener
