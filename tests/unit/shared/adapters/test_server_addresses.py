"""Servers are named in sentences and logs, their passwords never are."""

import psycopg
import pytest
import redis

from shared.adapters.postgres import unreachable as postgres
from shared.adapters.redis import connection as valkey


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://u:secret-word@db.example:6000/x", "db.example:6000"),
        ("postgresql://u:secret-word@[::1]/x", "[::1]:5432"),
        ("host=a,b port=1 password=secret-word", "a:1, b:1"),
        ("host=/run/postgresql", "/run/postgresql"),
        ("dbname=x", "this machine:5432"),
        ("postgresql://u:secret-word@[::1/x", "an address that can't be read"),
    ],
)
def test_a_postgres_is_host_and_port(url: str, address: str) -> None:
    """In each spelling that libpq takes."""
    assert postgres.address_of(url) == address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://:secret-word@redis.example/0", "redis.example:6379"),
        ("rediss://u:secret-word@[::1]:7000/0", "[::1]:7000"),
        ("unix:///run/redis.sock", "/run/redis.sock"),
        ("redis://u:secret-word@h:port", "an address that can't be read"),
    ],
)
def test_a_redis_is_host_and_port(url: str, address: str) -> None:
    """Or its socket."""
    assert valkey.address_of(url) == address


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            'connection failed: connection to server at "127.0.0.1", port 1 failed: Connection refused\n'
            "\tIs the server running on that host and accepting TCP/IP connections?",
            "Connection refused",
        ),
        (
            'connection failed: connection to server at "127.0.0.1", port 5432 failed: FATAL:  password authentication '
            'failed for user "lucyd"\n',
            'password authentication failed for user "lucyd"',
        ),
        (
            'connection is bad: connection to server on socket "/tmp/.s.PGSQL.5432" failed: No such file or directory\n'
            "\tIs the server running locally and accepting connections on that socket?",
            "No such file or directory",
        ),
        ("failed to resolve host 'db': [Errno -2] Name or service not known", "failed to resolve host 'db': Name or "
         "service not known"),
        ("", "OperationalError"),
    ],
)  # fmt: skip
def test_the_reason_of_libpq_is_told_without_its_hints(said: str, reason: str) -> None:
    """The last line, a question, helped nobody."""
    assert postgres.reason_of(psycopg.OperationalError(said)) == reason


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (redis.ConnectionError("Error 111 connecting to 127.0.0.1:1. Connect call failed ('127.0.0.1', 1)."),
         "Connection refused"),
        (redis.ConnectionError("Error -2 connecting to h:1. Name or service not known."), "Name or service not known"),
        (redis.AuthenticationError("invalid password"), "invalid password"),
        (TimeoutError(), "no answer"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)  # fmt: skip
def test_the_reason_of_redis_is_told_without_the_address(fault: Exception, reason: str) -> None:
    """That stands before it already."""
    assert valkey.reason_of(fault) == reason
