"""Clients that hang up, over real sockets: their runs go on, but for those who asked that they should not."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.stack import Process, Stack, client, open_stack, text_of, wait_until

WISH = {"Prefer": "wait=10, Cancel-On-Disconnect; now"}
STAYS = 1.0
"""Seconds that a run is looked at which is not to end; one that is to end does so within a tenth of that."""


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, "[run]\nwait_seconds = 60\n") as opened:
        yield opened


@pytest.fixture
def database(stack: Stack) -> Iterator[psycopg.Connection]:
    with psycopg.connect(stack.database_url, autocommit=True) as opened:
        yield opened


def states(database: psycopg.Connection) -> list[str]:
    return [row[0] for row in database.execute("select state from runs order by id").fetchall()]


def hang_up(gateway: Process, database: psycopg.Connection, **headers: str) -> None:
    """Send a message, and leave when it is accepted."""
    before = len(states(database))
    with client(gateway) as http, pytest.raises(httpx2.ReadTimeout):
        http.post("/api/v1/chat", json={"message": "hello", "sender": f"s{before}"}, headers=headers, timeout=0.7)


def leave_stream(gateway: Process, **headers: str) -> None:
    """Follow a stream up to its first event, and leave."""
    with (
        client(gateway) as http,
        http.stream("POST", "/api/v1/chat/stream", json={"message": "hello"}, headers=headers) as answer,
    ):
        assert next(answer.iter_lines()).startswith("id: ")


def test_a_run_goes_on_when_its_client_hangs_up(stack: Stack, database: psycopg.Connection) -> None:
    """A phone in a tunnel does not want its question forgotten."""
    gateway = stack.gateway()
    hang_up(gateway, database)
    leave_stream(gateway)
    time.sleep(STAYS)
    assert states(database) == ["accepted", "accepted"]


def test_a_run_ends_when_its_client_hangs_up_and_had_asked_for_that(stack: Stack, database: psycopg.Connection) -> None:
    """A page that was closed needs no answer, and answers cost money."""
    gateway = stack.gateway()
    hang_up(gateway, database, **WISH)
    wait_until(lambda: states(database) == ["cancelled"], "the run of the one who waited has ended")
    leave_stream(gateway, **WISH)
    wait_until(lambda: states(database) == ["cancelled", "cancelled"], "the run of the one who followed has ended")
    told = database.execute("select distinct outcome ->> 'error' from runs").fetchall()
    assert told == [("Its client hung up.",)]
    gateway.stop()
    assert '"status": 499' in text_of(gateway)


def test_a_bridge_that_hangs_up_can_ask_for_that_too(stack: Stack, database: psycopg.Connection) -> None:
    """It waits at the same desk as everybody."""
    gateway = stack.gateway()
    with client(gateway) as http, pytest.raises(httpx2.ReadTimeout):
        http.post("/api/v1/inbound/telegram", json={"message": "hello"}, headers=WISH, timeout=0.7)
    wait_until(lambda: states(database) == ["cancelled"], "its run has ended")


OPENAI: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "lucyd", "messages": [{"role": "user", "content": "hello"}]},
    "/v1/responses": {"model": "lucyd", "input": "hello"},
}


@pytest.mark.parametrize("path", list(OPENAI))
def test_a_client_of_openai_can_ask_for_that_too(stack: Stack, database: psycopg.Connection, path: str) -> None:
    """What holds at one door holds at the other; and without the wish the run goes on here, too."""
    gateway = stack.gateway()
    with client(gateway) as http:
        for headers in ({}, WISH):
            with pytest.raises(httpx2.ReadTimeout):
                http.post(path, json=OPENAI[path], headers=headers, timeout=0.7)
        wait_until(lambda: states(database) == ["accepted", "cancelled"], "the run of the one who waited has ended")
        for headers in ({}, WISH):
            with http.stream("POST", path, json={**OPENAI[path], "stream": True}, headers=headers) as answer:
                assert next(answer.iter_lines())
        wait_until(lambda: states(database)[2:] == ["accepted", "cancelled"], "the run of the one who followed, too")


def test_only_the_request_that_made_the_run_can_end_it_by_hanging_up(
    stack: Stack, database: psycopg.Connection
) -> None:
    """With one key for many, one of them goes and the others still wait."""
    gateway = stack.gateway()
    body = {"message": "hello", "sender": "ada"}
    key = {"Idempotency-Key": "one"}
    for headers in (key, {**key, **WISH}):
        with client(gateway) as http, pytest.raises(httpx2.ReadTimeout):
            http.post("/api/v1/chat", json=body, headers=headers, timeout=0.7)
    time.sleep(STAYS)
    assert states(database) == ["accepted"]


def test_who_hangs_up_does_not_end_the_run_while_others_wait_for_it(stack: Stack, database: psycopg.Connection) -> None:
    """They asked with the same key, or follow it; the first of them is only the one who came first."""
    gateway = stack.gateway()
    body = {"message": "hello", "sender": "ada"}
    key = {"Idempotency-Key": "one"}
    with (
        client(gateway) as other,
        client(gateway) as http,
        http.stream("POST", "/api/v1/chat/stream", json=body, headers={**key, **WISH}) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        with other.stream("POST", "/api/v1/chat/stream", json=body, headers=key) as follower:
            told = follower.iter_lines()
            assert next(told).startswith("id: ")
            answer.close()
            time.sleep(STAYS)
            assert states(database) == ["accepted"]
    with (
        client(gateway) as http,
        http.stream("POST", "/api/v1/chat/stream", json=body | {"sender": "bob"}, headers=WISH) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
    wait_until(lambda: states(database) == ["accepted", "cancelled"], "the run that nobody waits for has ended")


def test_a_gateway_that_is_stopped_ends_no_run_of_those_who_wait(stack: Stack, database: psycopg.Connection) -> None:
    """It was not their client who went."""
    stack.config.write_text("[http]\ndrain_seconds = 0.5\n[run]\nwait_seconds = 60\n")
    gateway = stack.gateway()
    with (
        client(gateway) as http,
        http.stream("POST", "/api/v1/chat/stream", json={"message": "hello"}, headers=WISH) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        assert gateway.stop() == 0
        assert list(lines)
    assert states(database) == ["accepted"]


MERGE = "update runs set state = 'merged', merged_into = %s, finished_at = now() where id <> %s"


def test_who_hangs_up_does_not_end_the_run_that_took_their_message_in(
    stack: Stack, database: psycopg.Connection
) -> None:
    """It answers somebody else, who still waits."""
    gateway = stack.gateway()
    hang_up(gateway, database)
    (leader,) = database.execute("select id from runs").fetchone() or (None,)
    with (
        client(gateway) as http,
        http.stream(
            "POST", "/api/v1/chat/stream", json={"message": "and this", "sender": "s0"}, headers=WISH
        ) as answer,
    ):
        lines = answer.iter_lines()  # held: forgotten, it would hang up by itself
        assert next(lines).startswith("id: ")
        database.execute(MERGE, (leader, leader))  # as a step of the run in hand does
    time.sleep(STAYS)
    assert states(database) == ["accepted", "merged"]
