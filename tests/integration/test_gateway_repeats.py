"""Work that is no message, asked for again under its idempotency key: done once, and answered the same."""

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import redis

from tests.api_keys import bearer, make_key
from tests.scripted_model_server import Say, Script, ScriptedModelServer
from tests.stack import Stack, client, model_toml, open_stack, wait_until

JOBS = ("index", "consolidate", "maintain")
RESTING = "update sessions set updated_at = now() - interval '61 minutes' where contact like %s"
ENDED = "update runs set finished_at = now() - interval '61 minutes' where finished_at < now() and conversation like %s"
EXTRA = """
[session.auto_reset]
enabled = true
idle_minutes = 60
"""


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    scripts: dict[str, Script] = {"say": [Say("Hello there.")]}
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=EXTRA)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


@pytest.fixture
def http(stack: Stack) -> Iterator[httpx2.Client]:
    with client(stack.gateway()) as opened:
        yield opened


def under(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def talk(http: httpx2.Client, sender: str) -> Any:
    reply = http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": sender})
    assert reply.status_code == 200, reply.text
    return reply.json()


def let_rest(stack: Stack, sender: str) -> None:
    """As if nobody had said anything there for an hour."""
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        database.execute(RESTING, (f"http-{sender}",))
        database.execute(ENDED, (f"http:default:{sender}",))


def next_second() -> None:
    """Jobs of one second are one job in any case."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, "a second has passed")


def test_a_job_that_is_asked_for_twice_under_one_key_is_one_job(http: httpx2.Client, stack: Stack) -> None:
    """Whoever lost the answer asks again, a minute later, at another gateway."""
    redis_client: Any = redis.Redis.from_url(stack.redis_url)
    with client(stack.gateway()) as other:
        for name in JOBS:
            first = http.post(f"/api/v1/{name}", headers=under("monday"), json={})
            next_second()
            again = other.post(f"/api/v1/{name}", headers=under("monday"), json={})
            assert (again.status_code, again.json()) == (first.status_code, first.json()) == (202, first.json())
            assert redis_client.llen(f"rq:queue:lucyd-{name}") == 1
            assert http.get(f"/api/v1/jobs/{first.json()['job_id']}").json()["state"] == "queued"
            new = http.post(f"/api/v1/{name}", headers=under("tuesday"), json={})
            assert new.json()["job_id"] != first.json()["job_id"]
    redis_client.close()


def test_a_key_with_another_body_is_refused(http: httpx2.Client) -> None:
    """It is another wish, so one of the two would be lost. No body at all says the same as an empty object."""
    for path in ("index", "consolidate", "maintain", "compact", "sessions/auto-reset"):
        first = http.post(f"/api/v1/{path}", headers=under("once"))
        assert first.status_code in {200, 202}, first.text
        assert http.post(f"/api/v1/{path}", headers=under("once"), json={}).json() == first.json()
        assert http.post(f"/api/v1/{path}", headers=under("once"), content=iter(())).json() == first.json()
        other = http.post(f"/api/v1/{path}", headers=under("once"), json={"full": True})
        assert (other.status_code, other.json()["error"]) == (409, "this idempotency key was used with another body")
        assert http.post(f"/api/v1/{path}", headers=under("a" * 256)).status_code == 400


def test_a_key_is_known_within_its_api_key_and_for_its_time(http: httpx2.Client, stack: Stack) -> None:
    """Two customers may both call theirs ``1``; and nothing is kept for ever."""
    first = http.post("/api/v1/maintain", headers=under("1")).json()
    other = bearer(make_key(stack.database_url, "other", "admin"))
    assert http.post("/api/v1/maintain", headers={**under("1"), **other}).json()["job_id"] != first["job_id"]
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        lives = database.execute("select min(expires_at - now()) > interval '23 hours' from idempotency").fetchone()
        database.execute("update idempotency set expires_at = now() - interval '1 second'")
    assert lives == (True,)
    assert http.post("/api/v1/maintain", headers=under("1")).json()["job_id"] != first["job_id"]


def test_a_job_needs_no_body(http: httpx2.Client) -> None:
    """``curl -X POST`` sends none."""
    for name in JOBS:
        assert http.post(f"/api/v1/{name}").status_code == 202
        assert http.post(f"/api/v1/{name}", content=b"{").status_code == 400
        assert http.post(f"/api/v1/{name}", json=[]).status_code == 400


def test_sessions_are_closed_once_under_one_key(http: httpx2.Client, stack: Stack) -> None:
    """Who asks again is told what was done, and what rests since then stays as it is."""
    stack.workers()
    talk(http, "ada")
    talk(http, "bob")
    path = "/api/v1/sessions/auto-reset"
    let_rest(stack, "ada")
    first = http.post(path, headers=under("night")).json()
    let_rest(stack, "bob")
    assert (first["reset"], first["count"]) == (True, 1)
    assert http.post(path, headers=under("night")).json() == first
    assert [session["contact"] for session in http.get("/api/v1/sessions").json()["sessions"]] == ["http-bob"]
    assert http.post(path, headers=under("morning")).json()["count"] == 1


def test_a_reset_under_a_key_closes_nothing_that_was_begun_after_it(http: httpx2.Client, stack: Stack) -> None:
    """Whoever lost the answer asks again, and may have gone on talking meanwhile."""
    stack.workers()
    talk(http, "ada")
    path = "/api/v1/sessions/reset"
    for target in ("http-ada", "all"):
        first = http.post(path, headers=under(target), json={"target": target})
        assert first.json()["count"] == 1
        session = talk(http, "ada")["session_id"]
        again = http.post(path, headers=under(target), json={"target": target})
        assert (again.status_code, again.content) == (200, first.content)
        assert [one["session_id"] for one in http.get("/api/v1/sessions").json()["sessions"]] == [session]
        assert http.post(path, headers=under(target), json={"target": "http-bob"}).status_code == 409


def test_who_asks_at_the_same_time_under_one_key_is_told_the_same(stack: Stack) -> None:
    """A hundred repeats are one wish: each is told what was done, to the letter, at whichever gateway it arrives."""
    stack.workers()
    gateways = [stack.gateway(), stack.gateway()]
    with contextlib.ExitStack() as clients, ThreadPoolExecutor(100) as threads:
        both = [clients.enter_context(client(gateway)) for gateway in gateways]
        list(threads.map(lambda number: talk(both[0], f"rests-{number}"), range(8)))
        let_rest(stack, "rests-%")

        def asked(path: str, key: str, some: list[httpx2.Client]) -> set[tuple[int, bytes]]:
            posts = [
                threads.submit(some[number % len(some)].post, f"/api/v1/{path}", headers=under(key))
                for number in range(100)
            ]
            answers = [post.result() for post in posts]
            answers.append(some[0].post(f"/api/v1/{path}", headers=under(key)))
            return {(answer.status_code, answer.content) for answer in answers}

        closed = asked("sessions/auto-reset", "night", both[:1])
        assert [json.loads(body)["count"] for _, body in closed] == [8]
        list(threads.map(lambda number: talk(both[0], f"rests-{number}"), range(8)))
        let_rest(stack, "rests-%")
        assert len(asked("sessions/auto-reset", "noon", both)) == 1
        assert both[0].get("/api/v1/sessions").json()["sessions"] == []
        for name in (*JOBS, "compact"):
            assert len(asked(name, "all", both)) == 1, name


def test_a_session_is_compacted_once_under_one_key(http: httpx2.Client, stack: Stack) -> None:
    """A summary of a summary loses what the first one kept. Who comes back early finds the run that is under way."""
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        worker = stack.workers()[0]
        for _ in range(4):
            talk(http, "ada")
        first = http.post("/api/v1/compact", headers=under("tidy"))
        again = http.post("/api/v1/compact", headers=under("tidy"))
        assert (again.status_code, again.json()) == (first.status_code, first.json()) == (200, first.json())
        assert first.json()["status"] == "completed"
        # As if its gateway had died between the end of the run and the answer.
        database.execute("update idempotency set answer = null")
        worker.stop()
        assert http.post("/api/v1/compact", headers=under("tidy")).json() == first.json()
        assert database.execute("select count(*) from runs where kind = 'compact'").fetchone() == (1,)
