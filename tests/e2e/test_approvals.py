"""A person is asked before a command runs, over HTTP and with real processes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.proofs import rows
from tests.scripted_model_server import Say, Script, ScriptedModelServer, Use
from tests.stack import Process, Stack, async_client, client, model_toml, open_stack, text_of, wait_until

ACT = "echo done >> acts.txt"
EXTRA = """
[tools]
ask_first = ["exec"]

[worker]
slots = 1
"""


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Something that must be allowed."""
    scripts: dict[str, Script] = {
        "act": [Use([("exec", {"command": ACT})], text="I'd like to."), Say("That was that.")],
        "acts": [
            Use([("exec", {"command": ACT})]),
            Use([("exec", {"command": ACT})]),
            Say("Twice."),
        ],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Workers with one slot each, that ask before they run a command."""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=EXTRA)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


@pytest.fixture
def worker(stack: Stack) -> Process:
    """The first worker."""
    (process,) = stack.workers()
    return process


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway."""
    gateway = await asyncio.to_thread(stack.gateway)
    async with async_client(gateway) as opened:
        yield opened


def acts(stack: Stack) -> int:
    file = stack.workspace / "acts.txt"
    return file.read_text().count("done") if file.exists() else 0


async def asked(http: httpx2.AsyncClient, script: str = "act", sender: str = "anna") -> dict[str, Any]:
    """The question, as the caller of ``/chat`` gets it."""
    reply = await http.post("/api/v1/chat", json={"message": f"[[script:{script}]]", "sender": sender})
    assert reply.status_code == 202, reply.text
    body: dict[str, Any] = reply.json()
    assert body["state"] == "waiting"
    return body


async def say(http: httpx2.AsyncClient, text: str, sender: str = "anna") -> httpx2.Response:
    return await http.post("/api/v1/chat", json={"message": text, "sender": sender})


async def test_the_next_text_is_the_answer(stack: Stack, worker: Process, http: httpx2.AsyncClient) -> None:
    """202 with the question; a yes, at another gateway, runs it once; its caller gets the reply of the run."""
    question = await asked(http)
    assert ACT in question["reply"]
    assert [one["tool"] for one in question["approvals"]] == ["exec"]
    assert acts(stack) == 0
    run = (await http.get(f"/api/v1/runs/{question['run_id']}")).json()
    assert run["state"] == "waiting"
    other = await asyncio.to_thread(stack.gateway)
    async with async_client(other) as there:
        reply = await say(there, "Yes, please.")
    assert reply.status_code == 200
    assert reply.json()["reply"] == "That was that."
    assert acts(stack) == 1
    states = rows(stack.database_url, "select state, attempts from runs order by ordinal")
    assert states == [("done", 1), ("merged", 0)]
    assert rows(stack.database_url, "select tool, state from effects") == [("exec", "done")]
    assert rows(stack.database_url, "select state, answer from approvals") == [("allowed", "Yes, please.")]


async def test_a_no_is_told_to_the_model(
    stack: Stack, models: ScriptedModelServer, worker: Process, http: httpx2.AsyncClient
) -> None:
    """In the person's words; nothing is run."""
    await asked(http)
    reply = await say(http, "yes but only tomorrow")
    assert reply.json()["reply"] == "That was that."
    assert acts(stack) == 0
    assert "They said: yes but only tomorrow" in json.dumps(models.requests[-1]["body"])
    assert rows(stack.database_url, "select count(*) from effects") == [(0,)]


async def test_a_run_that_waits_holds_no_slot(stack: Stack, worker: Process, http: httpx2.AsyncClient) -> None:
    """The worker has one; ten people wait for themselves, and it serves an eleventh."""
    questions = await asyncio.gather(*(asked(http, sender=f"s{number}") for number in range(10)))
    assert "hello" in (await say(http, "hello", sender="berta")).json()["reply"]
    assert rows(stack.database_url, "select count(*) from conversations where owner is not null") == [(0,)]
    replies = await asyncio.gather(*(say(http, "ok", sender=f"s{number}") for number in range(10)))
    assert [reply.json()["reply"] for reply in replies] == ["That was that."] * 10
    assert acts(stack) == len(questions) == 10


async def test_a_decision_by_its_id(stack: Stack, worker: Process, http: httpx2.AsyncClient) -> None:
    """The road for programs: once, by whoever may, for a question that is asked."""
    question = await asked(http)
    run, approval = question["run_id"], question["approvals"][0]["approval_id"]
    path = f"/api/v1/runs/{run}/approvals/{approval}"
    following = asyncio.create_task(http.get(f"/api/v1/runs/{run}/events"))
    assert (await http.post(path, json={"decision": "perhaps"})).status_code == 400
    allowed = await http.post(path, json={"decision": "allow"})
    assert (allowed.status_code, allowed.json()["allowed"]) == (200, True)
    story = (await following).text
    assert story.index("event: approval") < story.index("event: tool_started") < story.index("event: done")
    assert acts(stack) == 1
    assert (await http.post(path, json={"decision": "allow"})).status_code in {404, 409}

    second = await asked(http)
    path = f"/api/v1/runs/{second['run_id']}/approvals/{second['approvals'][0]['approval_id']}"
    denied = await http.post(path, json={"decision": "deny", "answer": "not today"})
    assert denied.json()["allowed"] is False
    await asyncio.to_thread(
        wait_until,
        lambda: rows(stack.database_url, "select state from runs where id = %s::uuid", second["run_id"]) == [("done",)],
        "the run has ended",
    )
    assert acts(stack) == 1


async def test_each_act_is_asked_about(stack: Stack, worker: Process, http: httpx2.AsyncClient) -> None:
    """Who answers the first question is asked the second."""
    await asked(http, "acts")
    again = await say(http, "yes")
    assert again.status_code == 202
    assert ACT in again.json()["reply"]
    assert acts(stack) == 1
    assert (await say(http, "yes")).json()["reply"] == "Twice."
    assert acts(stack) == 2


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_question_outlives_its_worker(
    stack: Stack, worker: Process, http: httpx2.AsyncClient, how: str
) -> None:
    """A kill or a deploy while somebody thinks it over."""
    await asked(http)
    await asyncio.to_thread(getattr(worker, how))
    saying = asyncio.create_task(say(http, "yes"))
    await asyncio.to_thread(stack.workers)
    assert (await saying).json()["reply"] == "That was that."
    assert acts(stack) == 1
    assert rows(stack.database_url, "select max(attempts), max(suspected) from runs") == [(1, 0)]


async def test_a_run_that_waits_can_be_cancelled(stack: Stack, worker: Process, http: httpx2.AsyncClient) -> None:
    """Then a later yes allows nothing."""
    question = await asked(http)
    ended = await http.post(f"/api/v1/runs/{question['run_id']}/cancel")
    assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
    assert "yes" in (await say(http, "yes")).json()["reply"]  # the echo of a plain message
    assert acts(stack) == 0
    assert rows(stack.database_url, "select state from approvals") == [("void",)]
    assert "run_broke" not in text_of(worker)


def test_what_is_asked_can_not_be_decided_by_others(stack: Stack, worker: Process) -> None:
    """An approval of another run, an unknown one, no id at all."""
    with client(stack.gateway()) as http:
        reply = http.post("/api/v1/chat", json={"message": "[[script:act]]"}).json()
        other = http.post("/api/v1/chat", json={"message": "hello", "sender": "berta"}).json()
        approval = reply["approvals"][0]["approval_id"]
        for path, status in (
            (f"{other['run_id']}/approvals/{approval}", 404),
            (f"{reply['run_id']}/approvals/{other['run_id']}", 404),
            (f"{reply['run_id']}/approvals/x", 400),
            (f"x/approvals/{approval}", 400),
        ):
            assert http.post(f"/api/v1/runs/{path}", json={"decision": "allow"}).status_code == status, path
    assert acts(stack) == 0
