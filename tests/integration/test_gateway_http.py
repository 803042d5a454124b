"""The gateway's manners, over real HTTP: who comes in, what is refused, and that accepting is idempotent."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest
import redis

from tests.stack import (
    PROJECT,
    TOKEN,
    Stack,
    async_client,
    client,
    free_port,
    model_toml,
    open_stack,
    text_of,
    wait_until,
)


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """A gateway needs no worker to accept."""
    toml = "[run]\nwait_seconds = 0.4\n[http]\nmax_body_bytes = 2000\n[agent]\nname = 'Testbert'\n"
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


def test_nobody_comes_in_without_the_token(stack: Stack) -> None:
    """Also not with a token that is no ASCII, which the original answered with 500."""
    gateway = stack.gateway()
    for header in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer schlüssel"):
        reply = httpx2.get(f"{gateway.url}/api/v1/sessions", headers=[(b"Authorization", header.encode("latin-1"))])
        assert reply.status_code == 401, header
        assert reply.json() == {"error": "unauthorized"}
    assert httpx2.get(f"{gateway.url}/api/v1/status").status_code == 200
    assert httpx2.get(f"{gateway.url}/healthz").status_code == 200
    checks = httpx2.get(f"{gateway.url}/readyz").json()["checks"]
    assert checks == {"postgres": "ok", "redis": "ok", "event_loop": "ok", "staying": "ok"}


def test_what_can_not_be_taken_changes_nothing(stack: Stack) -> None:
    """Each refusal has its code, a sentence and the agent's name."""
    gateway = stack.gateway()
    with client(gateway) as http:
        chat = "/api/v1/chat"
        refusals = [
            (http.post(chat, content=b"{"), 400, "invalid JSON body"),
            (http.post(chat, json=["hi"]), 400, "the body must be a JSON object"),
            (http.post(chat, json={"message": 5}), 400, '"message" field is required'),
            (http.post(chat, json={"message": "x" * 3000}), 413, "the body is too large"),
            (http.post(chat, content=iter([b"x" * 1500, b"x" * 1500])), 413, "the body is too large"),
            (http.get(chat), 405, "method not allowed"),
            (http.get("/api/v1/nowhere"), 404, "not found"),
            (http.get("/api/v1/runs/abc"), 400, "a run is named by its id"),
            (http.get("/api/v1/runs/01890000-0000-7000-8000-000000000000"), 404, "no such run"),
            (
                http.get("/api/v1/cost?period=month"),
                400,
                '"period" must be today, week, all or a month (2026-05)',
            ),
            (http.post("/api/v1/sessions/reset", json={"target": ""}), 400, '"target" must be a non-empty string'),
        ]
        for reply, status, sentence in refusals:
            assert reply.status_code == status, reply.text
            assert reply.json()["error"] == sentence
            assert reply.json()["agent"] == "Testbert"
            assert reply.headers["X-Lucyd-Agent"] == "Testbert"
        assert http.get("/api/v1/sessions/none/history").json()["events"] == []
        unknown = http.post("/api/v1/sessions/reset", json={"target": "nobody"}).json()
        assert unknown["reset"] is False
    with psycopg.connect(stack.database_url) as database:
        assert database.execute("select count(*) from runs").fetchone() == (0,)


def test_characters_that_no_store_can_hold_are_never_a_500(stack: Stack) -> None:
    """NUL and halves of characters: replaced in what somebody wrote, refused in names."""
    gateway = stack.gateway()
    with client(gateway) as http:
        for body in (
            rb'{"message": "a\u0000b\ud83dc", "context": "d\udc00\u0000"}',
            rb'{"message": "a\u0000b\ud83dc", "context": "d\udc00\u0000", "sender": "Ada"}',
        ):
            assert http.post("/api/v1/chat", content=body).status_code == 408
        for path, refused in (
            ("/api/v1/chat", rb'{"message": "x", "sender": "a\u0000"}'),
            ("/api/v1/chat", rb'{"message": "x", "sender": "a\ud800"}'),
            ("/api/v1/chat", rb'{"message": "x", "tier": "a\ud800"}'),
            ("/api/v1/chat", rb'{"message": "x", "source": "\u0000"}'),
            ("/api/v1/chat", b'{"message": "x\xff"}'),
            ("/api/v1/chat", b'{"message": NaN, "x": "\\ud800"}'),
            ("/api/v1/chat", b"[" * 1900),
            ("/api/v1/sessions/reset", rb'{"target": "\u0000"}'),
            ("/api/v1/sessions/reset", rb'{"target": "a\u001b"}'),
            ("/api/v1/sessions/reset", rb'{"target": "\ud800"}'),
        ):
            reply = http.post(path, content=refused)
            assert reply.status_code == 400, (refused, reply.text)
        assert http.get("/api/v1/sessions/%00/history").status_code == 200
        assert http.get("/api/v1/runs/%00").status_code == 400
        assert http.get("/api/v1/cost?period=%00").status_code == 400
    with psycopg.connect(stack.database_url) as database:
        texts = database.execute("select message->>'text' from runs").fetchall()
    assert texts == [("[d\ufffd\ufffd] a\ufffdb\ufffdc",)] * 2
    assert "Traceback" not in gateway.log.read_text()


async def test_one_idempotency_key_makes_one_run(stack: Stack) -> None:
    """100 posts at once with one key: one run, the same answer for all; another body is a conflict."""
    gateway = stack.gateway()
    async with async_client(gateway) as http:
        headers = {"Idempotency-Key": "order-17"}
        replies = await asyncio.gather(
            *(http.post("/api/v1/chat", json={"message": "buy milk"}, headers=headers) for _ in range(100))
        )
        # No worker runs here, so the wait is over before the answer: the run goes on and is named.
        assert {reply.status_code for reply in replies} == {408}
        (run,) = {reply.json()["run_id"] for reply in replies}
        other = await http.post("/api/v1/chat", json={"message": "buy bread"}, headers=headers)
        assert other.status_code == 409
        known = (await http.get(f"/api/v1/runs/{run}")).json()
        assert known["state"] == "accepted"
        bad_resume = await http.get(f"/api/v1/runs/{run}/events", headers={"Last-Event-ID": "yesterday"})
        bad_beside_good = await http.get(f"/api/v1/runs/{run}/events?after=x", headers={"Last-Event-ID": "0-1"})
        assert (bad_resume.status_code, bad_beside_good.status_code) == (400, 400)
    with psycopg.connect(stack.database_url) as database:
        assert database.execute("select count(*) from runs").fetchone() == (1,)
        assert database.execute("select last_ordinal from conversations").fetchone() == (1,)


def test_accepting_works_while_redis_is_away(stack: Stack) -> None:
    """A message is safe in Postgres; Redis only wakes."""
    gateway = stack.gateway()
    admin = redis.Redis.from_url(stack.redis_url)
    with client(gateway) as http, contextlib.closing(admin):
        admin.client_pause(3000)  # nothing is answered for so long, as if it hung
        reply = http.post("/api/v1/chat", json={"message": "one"})
        assert reply.status_code == 408
        assert reply.elapsed.total_seconds() < 2.9
    with psycopg.connect(stack.database_url) as database:
        assert database.execute("select state from runs").fetchall() == [("accepted",)]


def test_a_port_in_use_is_one_sentence(stack: Stack) -> None:
    """And exit 1, before anything was touched."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = stack.start("gateway", LUCYD_HTTP_PORT=str(taken.getsockname()[1]))
        assert process.popen.wait(20) == 1
    lines = process.log.read_text().strip().splitlines()
    assert len(lines) == 1
    assert "LUCYD_HTTP_PORT" in lines[0]


def test_a_service_that_waits_says_for_which_server(stack: Stack) -> None:
    """Host and port, so that a wrong variable is seen at once; never the password."""
    away = "redis://:secret-word@127.0.0.1:1/0"
    process = stack.start("gateway", LUCYD_HTTP_PORT=str(free_port()), LUCYD_REDIS_URL=away)
    wait_until(lambda: "waiting_for" in text_of(process), "it says that it waits")
    assert "127.0.0.1:1" in text_of(process)
    assert "secret-word" not in text_of(process)


def test_a_gateway_without_a_token_serves_nothing_and_never_beyond_this_machine(stack: Stack) -> None:
    """Deny by default."""
    stack.environment["LUCYD_HTTP_TOKEN"] = ""
    gateway = stack.gateway()
    reply = httpx2.get(f"{gateway.url}/api/v1/sessions", headers={"Authorization": "Bearer x"})
    assert reply.status_code == 503
    assert reply.json() == {"error": "No auth token configured"}
    outside = stack.start("gateway", LUCYD_HTTP_HOST="0.0.0.0", LUCYD_HTTP_PORT=str(free_port()))
    assert outside.popen.wait(20) == 1
    assert "no token is set" in outside.log.read_text()


def test_several_mistakes_in_the_configuration_are_told_at_once(stack: Stack) -> None:
    """One start shows them all."""
    stack.config.write_text('[http]\nport = "abc"\n[behavior]\nmax_turns_per_message = -1\n')
    process = stack.start("gateway")
    assert process.popen.wait(20) == 1
    said = process.log.read_text()
    assert "http.port" in said
    assert "max_turns_per_message" in said
    assert "Traceback" not in said


def test_the_token_of_the_model_is_in_no_log(stack: Stack) -> None:
    """A key is read once, and never written."""
    toml = model_toml("anthropic", "http://127.0.0.1:9", extra="[run]\nwait_seconds = 0.4\n")
    stack.config.write_text(toml.replace("max_tokens", 'api_key_env = "CANARY_KEY"\nmax_tokens', 1))
    stack.environment["CANARY_KEY"] = "sk-canary-4711"
    gateway = stack.gateway()
    with client(gateway) as http:
        http.post("/api/v1/chat", json={"message": "hello"})
    assert "canary-4711" not in gateway.log.read_text()


async def test_a_gateway_that_is_stopped_tells_whoever_waits_that_the_run_goes_on(stack: Stack) -> None:
    """A deploy must not look like a crash: 408 and which run to ask for, as when a reply takes its time."""
    stack.config.write_text("[run]\nwait_seconds = 30\n[http]\ndrain_seconds = 1\n")
    gateway = stack.gateway()
    async with async_client(gateway) as http:
        waiting = asyncio.create_task(http.post("/api/v1/chat", json={"message": "hello"}))
        run = await _the_run(stack)
        assert await asyncio.to_thread(gateway.stop) == 0
        reply = await waiting
    assert (reply.status_code, reply.json()["run_id"]) == (408, run)
    assert "Traceback" not in gateway.log.read_text()


async def test_a_stream_of_a_gateway_that_is_stopped_ends_between_two_events(stack: Stack) -> None:
    """Its reader asks another gateway for what comes after the last one; a broken body would be a fault to them."""
    gateway = stack.gateway()
    async with (
        async_client(gateway) as http,
        http.stream("POST", "/api/v1/chat/stream", json={"message": "hello"}) as answer,
    ):
        told = answer.aiter_bytes()
        assert b"event: accepted" in await anext(told)
        assert await asyncio.to_thread(gateway.stop) == 0
        assert b"".join([piece async for piece in told]) == b""  # raises when the body was not closed in order
    assert "Traceback" not in gateway.log.read_text()


async def _the_run(stack: Stack) -> str:
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        for _ in range(200):
            if (row := database.execute("select id::text from runs").fetchone()) is not None:
                return str(row[0])
            await asyncio.sleep(0.02)
    raise AssertionError("nothing was accepted")


def test_beyond_its_bound_a_key_is_told_to_slow_down(stack: Stack) -> None:
    """Nothing is stored of what is refused; a request that is repeated still gets its run."""
    stack.config.write_text("[run]\nwait_seconds = 0.1\n[limits]\nopen_runs_per_principal = 3\n", "utf-8")
    gateway = stack.gateway()
    with client(gateway) as http:
        first = http.post("/api/v1/chat", json={"message": "0", "sender": "s0"}, headers={"Idempotency-Key": "k"})
        others = [http.post("/api/v1/chat", json={"message": f"{n}", "sender": f"s{n}"}) for n in (1, 2)]
        assert [reply.status_code for reply in (first, *others)] == [408, 408, 408]
        refused = http.post("/api/v1/chat", json={"message": "3", "sender": "s3"}, headers={"Idempotency-Key": "k3"})
        stream = http.post("/api/v1/chat/stream", json={"message": "3", "sender": "s3"})
        again = http.post("/api/v1/chat", json={"message": "0", "sender": "s0"}, headers={"Idempotency-Key": "k"})

    for reply in (refused, stream):
        assert reply.status_code == 429
        assert 1 <= int(reply.headers["Retry-After"]) <= 30
        assert reply.json()["error"] == "too many of your messages wait to be answered"
        assert reply.json()["agent"]
    assert again.status_code == 408
    assert again.json()["run_id"] == first.json()["run_id"]
    with psycopg.connect(stack.database_url) as connection:
        assert connection.execute("select count(*) from runs").fetchone() == (3,)
        assert connection.execute("select count(*) from idempotency where key = 'k3'").fetchone() == (0,)


def test_a_conversation_that_is_full_is_backpressure_too(stack: Stack) -> None:
    """It used to be 503, as if the server were ill."""
    stack.config.write_text("[run]\nwait_seconds = 0.1\n[behavior]\nqueue_capacity = 1\n", "utf-8")
    gateway = stack.gateway()
    with client(gateway) as http:
        assert http.post("/api/v1/chat", json={"message": "1", "sender": "s"}).status_code == 408
        refused = http.post("/api/v1/chat", json={"message": "2", "sender": "s"})
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "5"
    assert refused.json()["error"] == "too many messages wait in this conversation"


def test_a_given_socket_is_used_and_opens_the_door_to_nobody_without_a_token(stack: Stack) -> None:
    """A socket unit may listen anywhere; what holds for `[http] host` holds for it."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(stack.folder),
        "LUCYD_DATABASE_URL": stack.database_url,
        "LUCYD_REDIS_URL": stack.redis_url,
        "LUCYD_DATA_DIR": str(stack.folder),
    }
    for address, code in (("127.0.0.1", None), ("0.0.0.0", 1)):
        with socket.create_server((address, 0)) as door:
            door.set_inheritable(True)
            process = subprocess.Popen(
                [sys.executable, "-m", "services.gateway", "-c", str(stack.config)],
                cwd=PROJECT,
                env={**environment, "LUCYD_HTTP_FD": str(door.fileno())},
                pass_fds=[door.fileno()],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            try:
                if code is None:
                    url = f"http://127.0.0.1:{door.getsockname()[1]}/readyz"
                    assert httpx2.get(url, timeout=20).status_code == 200
                else:
                    _, said = process.communicate(timeout=20)
                    assert process.returncode == code
                    assert "no token is set" in said
            finally:
                process.kill()
                process.communicate()
