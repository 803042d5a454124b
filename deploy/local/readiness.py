"""Ask whether there is somebody to talk with: the gateway is ready, and a worker runs behind it."""

import http.client
from urllib.parse import urlsplit

import redis

from shared.messages.routes import MONITOR_SERVICES, MONITOR_WORKERS

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not bound


def address_of(host: str) -> str:
    """Return where a server that listens at ``host`` is reached from this machine."""
    return _WILDCARDS.get(host, host)


def has_worker(redis_url: str) -> bool:
    """Tell whether an agent worker has said that it runs; a Redis that does not answer is a no."""
    client = redis.Redis.from_url(redis_url, socket_timeout=2, socket_connect_timeout=2)
    try:
        return next(client.scan_iter(match=f"{MONITOR_WORKERS}*", count=1000), None) is not None
    except redis.RedisError:
        return False
    finally:
        client.close()


def is_up(redis_url: str, service: str, *, parent: int) -> bool:
    """Tell whether the process of this service whose parent has that pid says that it runs, and answers if asked."""
    prefix = MONITOR_WORKERS if service == "agent_worker" else f"{MONITOR_SERVICES}{service}:"
    client = redis.Redis.from_url(redis_url, socket_timeout=2, socket_connect_timeout=2, decode_responses=True)
    try:
        for key in client.scan_iter(match=f"{prefix}*", count=1000):
            born_of, health = (str(each or "") for each in client.hmget(key, ["parent", "health"]))
            if born_of == str(parent):
                # Which it does once it runs. A gateway shares its door with others, so the door tells nothing of it.
                return service == "gateway" or _answers(health)
    except redis.RedisError:
        return False
    finally:
        client.close()
    return False


def _answers(address: str) -> bool:
    parts = urlsplit(address)
    return parts.hostname is not None and parts.port is not None and is_ready(parts.hostname, parts.port)


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
