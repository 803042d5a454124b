"""Ending runs and answering their questions over HTTP, out of a real Postgres and without any worker."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pytest
import redis

from shared.actions.cancel_run import CANCELLED
from shared.ids import new_id
from shared.messages import routes
from tests.stack import Stack, client, open_stack


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    with open_stack(tmp_path, database_url, redis_url, "[run]\nwait_seconds = 20\n") as opened:
        yield opened


@pytest.fixture
def http(stack: Stack) -> Iterator[httpx2.Client]:
    """A gateway."""
    with client(stack.gateway()) as opened:
        yield opened


@pytest.fixture
def line(stack: Stack) -> Iterator["Line"]:
    """Rows to be put where a worker would have put them."""
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        yield Line(database)


class Line:
    """Runs in every state."""

    def __init__(self, database: psycopg.Connection) -> None:
        self._database = database

    def run(self, state: str = "accepted", *, sender: str = "ada", key: str = "default") -> UUID:
        run, session = new_id(), new_id()
        conversation = f"http:{key}:{sender}"
        worker = self.worker() if state == "running" else None
        self._database.execute(
            "insert into conversations (key, channel, principal, contact, last_ordinal, owner, epoch)"
            " values (%s, 'http', %s, %s, 1, %s, 1)",
            (conversation, f"key:{key}", f"http-{sender}", worker),
        )
        self._database.execute(
            "insert into sessions (id, conversation, contact) values (%s, %s, 'Ada')", (session, conversation)
        )
        over = state in {"done", "failed"}
        self._database.execute(
            "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
            " deadline_at, epoch, session, stage, outcome, terminal, finished_at, waiting_since)"
            " values (%s, %s, 1, 'message', %s, 'http', 'full', %s, %s, '{\"text\": \"hello\"}',"
            " now() + interval '1 hour', 1, %s, %s, %s, %s, case when %s then now() end, case when %s then now() end)",
            (run, conversation, state, f"key:{key}", sender, session, "new" if state == "accepted" else "tools",
             '{"state": "done", "reply": "hi"}' if over else None, "1-18446744073709551615" if over else None,
             over, state == "waiting"),
        )  # fmt: skip
        return run

    def worker(self) -> UUID:
        worker = new_id()
        self._database.execute(
            "insert into workers (id, service, host, boot_id, pid, pid_started, version)"
            " values (%s, 'agent_worker', 'elsewhere', 'boot', 1, '1', '0.1.0')",
            (worker,),
        )
        return worker

    def approval(self, run: UUID, call_index: int = 0) -> UUID:
        approval = new_id()
        self._database.execute(
            "insert into approvals (id, run, conversation, step, call_index, tool, args_hash, question)"
            " select %s, id, conversation, step, %s, 'exec', '\\x00', 'May I?' from runs where id = %s",
            (approval, call_index, run),
        )
        return approval

    def one(self, query: str, *parameters: Any) -> Any:
        return self._database.execute(query, parameters).fetchone()

    def change(self, query: str, *parameters: Any) -> None:
        self._database.execute(query, parameters)


def entries(stack: Stack, stream: str) -> list[dict[str, str]]:
    with redis.Redis.from_url(stack.redis_url, decode_responses=True) as opened:
        return [fields for _, fields in opened.xrange(stream)]


@pytest.mark.parametrize("state", ["accepted", "waiting"])
def test_what_nobody_works_on_ends_at_once(stack: Stack, http: httpx2.Client, line: Line, state: str) -> None:
    """No worker has to live for it; what stands behind it is woken."""
    run = line.run(state)
    began = time.monotonic()
    reply = http.post(f"/api/v1/runs/{run}/cancel")
    assert time.monotonic() - began < 5
    body = reply.json()
    assert (reply.status_code, body["state"], body["outcome"]["error"]) == (200, "cancelled", CANCELLED)
    assert [entry["conversation"] for entry in entries(stack, routes.INBOUND)] == ["http:default:ada"]
    assert entries(stack, routes.CONTROL) == []


def test_a_cancel_twice_or_too_late_changes_nothing(http: httpx2.Client, line: Line) -> None:
    """Buttons are pressed twice."""
    run, done = line.run(), line.run("done", sender="eve")
    first, second = (http.post(f"/api/v1/runs/{run}/cancel").json() for _ in range(2))
    assert first == second
    late = http.post(f"/api/v1/runs/{done}/cancel")
    assert (late.status_code, late.json()["state"], late.json()["outcome"]["reply"]) == (200, "done", "hi")
    assert line.one("select count(*) from events where type = 'run_cancelled'") == (1,)


def test_a_worker_is_told_and_the_answer_waits_for_the_end(stack: Stack, http: httpx2.Client, line: Line) -> None:
    """The command names the run, its conversation and the reason; the reply tells what is stored."""
    run = line.run("running")

    def end() -> None:
        while line.one("select cancel_asked_at from runs where id = %s", run) == (None,):
            time.sleep(0.01)
        time.sleep(0.5)
        line.one("select lucyd_cancel(%s, 'x', true)", run)

    worker = threading.Thread(target=end)
    worker.start()
    began = time.monotonic()
    reply = http.post(f"/api/v1/runs/{run}/cancel")
    took = time.monotonic() - began
    worker.join()
    assert (reply.status_code, reply.json()["state"]) == (200, "cancelled")
    assert 0.5 < took < 8  # healed by the look at Postgres once a second, since nobody has told it over Redis
    assert entries(stack, routes.CONTROL) == [
        {"type": "cancel", "run": str(run), "conversation": "http:default:ada", "reason": CANCELLED}
    ]


def test_a_run_that_does_not_end_is_told_as_going_on(http: httpx2.Client, line: Line) -> None:
    """202, bounded; the cancel stays asked for."""
    run = line.run("running")
    began = time.monotonic()
    reply = http.post(f"/api/v1/runs/{run}/cancel")
    assert (reply.status_code, reply.json()["state"]) == (202, "running")
    assert 9 < time.monotonic() - began < 20
    assert line.one("select cancel_asked_at is not null, cancel_reason from runs where id = %s", run) == (
        True,
        CANCELLED,
    )


def test_a_merged_run_stands_for_its_leader(http: httpx2.Client, line: Line) -> None:
    """Who cancels their own message ends the run that took it in, and reads of that end."""
    leader, follower = line.run("waiting"), new_id()
    line.change(
        "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
        " deadline_at, merged_into) select %s, conversation, 2, kind, 'merged', source, tier, principal, sender,"
        " message, deadline_at, id from runs where id = %s",
        follower,
        leader,
    )
    line.change("update conversations set last_ordinal = 2")  # accept raises it for every row of the line
    reply = http.post(f"/api/v1/runs/{follower}/cancel")
    assert reply.status_code == 200
    assert reply.json()["outcome"]["merged_into"] == str(leader)
    assert line.one("select state from runs where id = %s", leader) == ("cancelled",)


def test_only_runs_of_the_caller_can_be_ended_or_decided(http: httpx2.Client, line: Line) -> None:
    """Another key's run is as if it were not there."""
    theirs = line.run("waiting", key="phone")
    approval = line.approval(theirs)
    for run, status in ((theirs, 404), (new_id(), 404), ("abc", 400)):
        assert http.post(f"/api/v1/runs/{run}/cancel").status_code == status
        decided = http.post(f"/api/v1/runs/{run}/approvals/{approval}", json={"decision": "allow"})
        assert decided.status_code == status
    assert line.one("select state from runs where id = %s", theirs) == ("waiting",)
    assert line.one("select state from approvals") == ("pending",)
    nobody = httpx2.post(f"{http.base_url}/api/v1/runs/{theirs}/cancel")
    assert nobody.status_code == 401


def test_a_question_is_decided_once(stack: Stack, http: httpx2.Client, line: Line) -> None:
    """With the last of them the run goes on, and somebody is woken."""
    run = line.run("waiting")
    first, second = line.approval(run), line.approval(run, 1)
    path = f"/api/v1/runs/{run}/approvals"
    reply = http.post(f"{path}/{first}", json={"decision": "allow"})
    assert reply.status_code == 200
    assert {name: reply.json()[name] for name in ("run_id", "approval_id", "allowed")} == {
        "run_id": str(run),
        "approval_id": str(first),
        "allowed": True,
    }
    assert entries(stack, routes.INBOUND) == []
    assert http.post(f"{path}/{first}", json={"decision": "deny"}).status_code == 404
    denied = http.post(f"{path}/{second}", json={"decision": "deny", "answer": "not today"})
    assert denied.json()["allowed"] is False
    assert [entry["conversation"] for entry in entries(stack, routes.INBOUND)] == ["http:default:ada"]
    assert line.one("select array_agg(state order by call_index), max(answer), min(decided_by) from approvals") == (
        ["allowed", "denied"],
        "not today",
        "default",
    )
    assert line.one("select wake_at <= now() from runs where id = %s", run) == (True,)


@pytest.mark.parametrize(
    "body", ["", "[]", "nonsense", '{"decision": "maybe"}', '{"decision": true}', '{"decision": "allow", "answer": 7}']
)
def test_what_is_no_decision_decides_nothing(http: httpx2.Client, line: Line, body: str) -> None:
    """One clear error."""
    run = line.run("waiting")
    approval = line.approval(run)
    reply = http.post(f"/api/v1/runs/{run}/approvals/{approval}", content=body)
    assert reply.status_code == 400
    assert reply.json()["error"]
    assert line.one("select state from approvals") == ("pending",)


def test_a_decision_of_endless_words_is_refused(http: httpx2.Client, line: Line) -> None:
    """Nobody needs a megabyte to say no."""
    run = line.run("waiting")
    approval = line.approval(run)
    body = {"decision": "deny", "answer": "no " * 50_000}
    assert http.post(f"/api/v1/runs/{run}/approvals/{approval}", json=body).status_code == 413


def test_a_caller_that_waits_is_asked(http: httpx2.Client, line: Line) -> None:
    """202 with the question, within the second in which the gateway looks; the run goes on."""
    asked: list[httpx2.Response] = []
    caller = threading.Thread(
        target=lambda: asked.append(http.post("/api/v1/chat", json={"message": "do it", "sender": "bob"}))
    )
    caller.start()
    while (found := line.one("select id from runs")) is None:
        time.sleep(0.01)
    (run,) = found
    line.change("insert into sessions (id, conversation, contact) values (%s, 'http:default:bob', 'Bob')", run)
    approval = line.approval(run)
    line.change("update runs set state = 'waiting', session = id, waiting_since = now()")
    began = time.monotonic()
    caller.join()
    assert time.monotonic() - began < 3
    body = asked[0].json()
    assert (asked[0].status_code, body["state"], body["reply"]) == (202, "waiting", "May I?")
    assert body["run_id"] == str(run)
    assert body["approvals"] == [{"approval_id": str(approval), "tool": "exec"}]


def test_a_message_may_ask_not_to_wait(http: httpx2.Client, line: Line) -> None:
    """409, and nothing of it is stored."""
    line.run("running")
    refused = http.post("/api/v1/chat", json={"message": "now?", "sender": "ada", "when_busy": "reject"})
    assert refused.status_code == 409
    wrong = http.post("/api/v1/chat", json={"message": "now?", "sender": "ada", "when_busy": "maybe"})
    assert wrong.status_code == 400
    assert line.one("select count(*) from runs") == (1,)
