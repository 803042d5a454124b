"""TCP ports of this machine's own address."""

import socket

LOOPBACK = "127.0.0.1"


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether somebody could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # As servers do: what lingers of closed connections doesn't count as busy, a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(remembered: int | None, avoid: frozenset[int] = frozenset()) -> int:
    """Take the port used before while nobody else has it, otherwise one that is free now."""
    if remembered is not None and remembered not in avoid and is_free(remembered):
        return remembered
    while True:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        if port not in avoid:
            return port
