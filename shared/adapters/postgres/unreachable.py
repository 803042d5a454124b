"""Why a Postgres can't be used, in one sentence: where it should be, and libpq's reason without its hints."""

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

USUAL_PORT = "5432"
_ATTEMPT = re.compile(r'connection to server (?:at "[^"]*"(?: \([^)]*\))?, port \d+|on socket "[^"]*") failed: (.+)')
_ERRNO = re.compile(r"\[Errno -?\d+\] ")
_NOISE = re.compile(r"^(?:connection failed: |(?:FATAL|ERROR): +)+")


def address_of(url: str) -> str:
    """``host:port`` of a connection string, never its password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "an address that can't be read"
    hosts = str(given.get("host") or given.get("hostaddr") or "this machine").split(",")
    ports = str(given.get("port") or USUAL_PORT).split(",")
    ports += ports[-1:] * (len(hosts) - len(ports))
    return ", ".join(_joined(host, port) for host, port in zip(hosts, ports, strict=False))


def reason_of(fault: Exception) -> str:
    """The first line of libpq's words (an error's text) that says what happened, without a period at its end."""
    text = str(fault).strip()
    if found := _ATTEMPT.search(text):
        text = found[1]
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(fault).__name__)
    return _ERRNO.sub("", _NOISE.sub("", line)).rstrip(".")


def _joined(host: str, port: str) -> str:
    if host.startswith("/"):
        return host  # a socket's folder
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
