"""Ask the gateway whether it is ready."""

import http.client

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not bound


def address_of(host: str) -> str:
    """Return where a server that listens at ``host`` is reached from this machine."""
    return _WILDCARDS.get(host, host)


def is_ready(host: str, port: int) -> bool:
    """Tell whether ``GET /readyz`` answers 200 now; no answer within two seconds is a no."""
    connection = http.client.HTTPConnection(address_of(host), port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
