"""Named keys and limits, with real gateways: shared by all, and no hindrance when a server is away."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psycopg
import pytest

from services.gateway.actions.look_up_key import KNOWN_FOR
from tests.api_keys import bearer, make_key, new_secret, revoke_key
from tests.stack import TOKEN, Process, Stack, open_stack, text_of, wait_until
from tests.wire import open_wire

REVOKED_WITHIN = 3.0
TOML = """
[agent]
name = "Testbert"
[run]
wait_seconds = 0.2
[http]
status_rate_limit = 20
rate_limit = 3
rate_window = 600
failed_login_limit = 4
"""


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, TOML) as opened:
        yield opened


def sessions(gateway: Process, secret: str) -> httpx2.Response:
    return httpx2.get(f"{gateway.url}/api/v1/sessions", headers=bearer(secret), timeout=10)


def chat(gateway: Process, secret: str) -> httpx2.Response:
    url = f"{gateway.url}/api/v1/chat"
    return httpx2.post(url, headers=bearer(secret), json={"message": "hi", "sender": "ada"}, timeout=10)


def unlimited(stack: Stack) -> None:
    stack.config.write_text(TOML.replace("status_rate_limit = 20", "status_rate_limit = 0"), "utf-8")


def test_a_revoked_key_is_refused_by_every_gateway_within_seconds(stack: Stack) -> None:
    """Also by those that had just looked it up. A key that took its place is good at once."""
    unlimited(stack)
    gateways = [stack.gateway(), stack.gateway()]
    secret = make_key(stack.database_url, "phone", "read")
    assert [sessions(gateway, secret).status_code for gateway in gateways] == [200, 200]
    revoke_key(stack.database_url, "phone")
    began = time.monotonic()
    for gateway in gateways:
        wait_until(lambda gateway=gateway: sessions(gateway, secret).status_code == 401, "it is refused", within=15)
    assert time.monotonic() - began < REVOKED_WITHIN
    assert [sessions(gateway, secret).status_code for gateway in gateways] == [401, 401]


def test_each_key_has_conversations_of_its_own(stack: Stack) -> None:
    """The same sender over two keys is two people, and each is told apart by the store itself."""
    gateway = stack.gateway()
    for name in ("desk", "phone"):
        assert chat(gateway, make_key(stack.database_url, name, "chat")).status_code == 408  # there is no worker
    chat(gateway, TOKEN)
    with psycopg.connect(stack.database_url) as database:
        rows = database.execute("select key, principal from conversations order by key").fetchall()
    assert rows == [(f"http:{name}:ada", f"key:{name}") for name in ("default", "desk", "phone")]


def test_the_limit_of_a_key_holds_over_all_gateways(stack: Stack) -> None:
    """Twenty looks are twenty, however they are spread; what is work counts for itself, and so does another key."""
    gateways = [stack.gateway(), stack.gateway()]
    secret = make_key(stack.database_url, "phone", "chat", "read")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda number: sessions(gateways[number % 2], secret), range(30)))
    passed = [reply for reply in replies if reply.status_code == 200]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert (len(passed), len(refused)) == (20, 10)
    assert sorted(int(reply.headers["RateLimit-Remaining"]) for reply in passed) == list(range(20))
    for reply in refused:
        assert reply.json()["error"] == "rate limit exceeded"
        assert 500 < int(reply.headers["Retry-After"]) <= 600
        assert reply.headers["RateLimit-Limit"] == "20"
        assert reply.headers["RateLimit-Remaining"] == "0"
        assert reply.headers["RateLimit-Reset"] == reply.headers["Retry-After"]

    assert [chat(gateways[number % 2], secret).status_code for number in range(4)] == [408, 408, 408, 429]
    assert sessions(gateways[0], TOKEN).headers["RateLimit-Remaining"] == "19"
    status = httpx2.get(f"{gateways[0].url}/api/v1/status", headers=bearer(secret))
    assert status.status_code == 200
    assert "RateLimit-Limit" not in status.headers


def test_who_guesses_is_told_to_wait_and_a_good_key_is_not(stack: Stack) -> None:
    """Guesses count for the address, at whichever gateway; who shares the address with the guesser is not shut out."""
    gateways = [stack.gateway(), stack.gateway()]
    guesses = [sessions(gateways[number % 2], new_secret()) for number in range(6)]
    assert [reply.status_code for reply in guesses] == [401, 401, 401, 401, 429, 429]
    assert all(int(reply.headers["Retry-After"]) > 0 for reply in guesses[4:])
    assert guesses[-1].json() == {"error": "rate limit exceeded", "agent": "Testbert"}
    assert httpx2.get(f"{gateways[0].url}/api/v1/sessions").status_code == 401  # no token is no guess
    for secret in (TOKEN, make_key(stack.database_url, "phone", "read")):
        assert sessions(gateways[1], secret).status_code == 200


@pytest.mark.parametrize("how", ["cut", "held"])
def test_without_redis_nobody_is_refused_for_that(stack: Stack, how: str) -> None:
    """Each gateway counts for itself then, says so once, and nobody waits for Redis longer than a moment."""
    with open_wire(stack.redis_url, 6379) as wire:
        stack.redis_url = wire.url
        gateway = stack.gateway()
        assert sessions(gateway, TOKEN).headers["RateLimit-Remaining"] == "19"
        wire.cut() if how == "cut" else wire.hold()
        began = time.monotonic()
        replies = [sessions(gateway, TOKEN) for _ in range(21)]
        assert time.monotonic() - began < 20
        assert [reply.status_code for reply in replies] == [*[200] * 20, 429]
        assert text_of(gateway).count("limits_of_this_process_alone") == 1

        wire.mend()
        wait_until(lambda: sessions(gateway, TOKEN).status_code == 200, "the windows of all count again")


def test_without_postgres_the_operator_still_comes_in(stack: Stack) -> None:
    """A named key goes on for two seconds and is then asked to come again; the operator's token needs nobody."""
    with open_wire(stack.database_url, 5432) as wire:
        secret = make_key(stack.database_url, "phone", "read")
        stack.database_url = wire.url
        gateway = stack.gateway()

        def look(secret: str) -> httpx2.Response:
            return httpx2.get(f"{gateway.url}/api/v1/monitor", headers=bearer(secret), timeout=10)

        assert look(secret).status_code == 200
        wire.cut()
        assert look(secret).status_code == 200
        time.sleep(KNOWN_FOR.total_seconds())
        away = look(secret)
        assert away.status_code == 503
        assert int(away.headers["Retry-After"]) > 0
        assert look(new_secret()).status_code == 503
        assert look("guess").status_code == 401
        assert look(TOKEN).status_code == 200

        wire.mend()
        wait_until(lambda: look(secret).status_code == 200, "it is known again")
