"""Sub-agents with real processes: runs of their own, which outlive workers and end with whoever asked for them."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis

from tests.e2e.proofs import check_histories, ends_told, rows
from tests.scripted_model_server import Asked, Hang, Say, Script, ScriptedModelServer, Step, Tokens, Use
from tests.stack import Process, Stack, async_client, model_toml, open_stack, wait_until

pytestmark = pytest.mark.alone

DEAR = Tokens(input=1000, output=1000)
"""0.018 at the rates of these tests."""

LONG = 20.0


def delegates(*prompts: str, **arguments: Any) -> Script:
    """Asks for one sub-agent for each prompt, and says what came of them."""

    def script(asked: Asked) -> Step:
        if asked.turn == 0:
            return Use([("sessions_spawn", {"prompt": prompt, **arguments}) for prompt in prompts], text="I'll ask.")
        return Say(" | ".join(results_in(asked.body)))

    return script


def results_in(body: Mapping[str, Any]) -> Sequence[str]:
    """The results that stand last in a request to a model."""
    found = []
    for block in body["messages"][-1]["content"]:
        if block["type"] == "tool_result":
            content = block["content"]
            found.append(content if isinstance(content, str) else "".join(part["text"] for part in content))
    return found


def reported(asked: Asked) -> Step:
    """Does what it may not, and says what it heard."""
    if asked.turn == 0:
        return Use([("sessions_spawn", {"prompt": "more"}), ("exec", {"command": "echo hi"})])
    return Say(" / ".join(results_in(asked.body)))


SCRIPTS: Mapping[str, Script] = {
    "one": delegates("[[script:quick]] go"),
    "quick": [Say("forty-two")],
    "slow": [Hang(LONG), Say("at last")],
    "hangs": delegates("[[script:slow]] go"),
    "denied": delegates("[[script:reported]] go"),
    "reported": reported,
    "loops": [Use([("read", {"file_path": "x"})], tokens=DEAR)] * 9,
    "turns": delegates("[[script:loops]] go", max_turns=2),
    "dear": delegates("[[script:loops]] go"),
    "hasty": delegates("[[script:never]] go", timeout=1),
    "never": [Hang(LONG), Hang(LONG), Say("never")],
    "five": delegates(*(f"[[script:quick]] {number}" for number in range(5))),
    "unknown": delegates("[[script:quick]] go", model="giant"),
    "other": delegates("[[script:quick]] go", model="cheap"),
    "missing": delegates("[[script:quick]] go", tools=["read", "teleport"]),
    "scoped": delegates("[[script:reported]] go", tools=["read", "sessions_spawn"]),
}
MORE = """
max_cost_per_message = {cost}

[models.cheap]
provider = "anthropic"
model = "scripted-cheap"
base_url = "{url}"

[worker]
slots = 1

[fairness]
window = 1

[tools]
enabled = ["read", "exec", "sessions_spawn"]
"""


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Parents and children."""
    with ScriptedModelServer(dict(SCRIPTS)).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Workers with one slot each."""
    url = models.base_url("anthropic")
    toml = model_toml("anthropic", url, extra=MORE.format(cost=0.05, url=url))
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        (opened.workspace / "SOUL.md").write_text("You are a gardener.")
        yield opened


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway."""
    gateway = await asyncio.to_thread(stack.gateway)
    async with async_client(gateway) as opened:
        yield opened


async def say(http: httpx2.AsyncClient, script: str) -> dict[str, Any]:
    reply = await http.post("/api/v1/chat", json={"message": f"[[script:{script}]]", "sender": "anna"})
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def accepted(http: httpx2.AsyncClient, script: str) -> str:
    """A run that nobody waits for."""
    reply = await http.post("/api/v1/notify", json={"message": f"[[script:{script}]]", "sender": "anna"})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["run_id"])


async def until(stack: Stack, query: str, expected: object, *parameters: Any, within: float = 15) -> float:
    """Wait until the one value of this query is that; after how many seconds it was."""
    began = time.monotonic()
    await asyncio.to_thread(
        wait_until,
        lambda: rows(stack.database_url, query, *parameters) == [(expected,)],
        f"{query} gives {expected}",
        within=within,
    )
    return time.monotonic() - began


def asked_for(models: ScriptedModelServer, word: str) -> list[Mapping[str, Any]]:
    """Requests to the model whose first message has this word."""
    found = []
    for request in models.requests:
        first = json.dumps(request["body"]["messages"][0])
        if f"[[script:{word}]]" in first:
            found.append(request["body"])
    return found


REPLY = "select outcome ->> 'reply' from runs where id = %s"
STATE = "select state from runs where id = %s"
STILL_READ = "select count(*) from messages m join children c on c.run = m.run where not dropped"
CHILD_IN_HAND = "select count(*) from runs where message ? 'child' and state = 'running'"


async def test_a_sub_agent_answers_its_parent(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """With one worker of one slot and a window of one: whoever waits for a child holds neither."""
    await asyncio.to_thread(stack.workers)
    body = await say(http, "one")
    assert body["reply"] == "forty-two"
    (child,) = asked_for(models, "quick")
    system = json.dumps(child["system"])
    assert "You are a sub-agent" in system
    assert "gardener" not in system
    assert [tool["name"] for tool in child["tools"]] == ["read", "exec"]
    (parent, _) = asked_for(models, "one")
    assert "gardener" in json.dumps(parent["system"])
    run = body["run_id"]
    listed = (await http.get("/api/v1/runs")).json()["runs"]
    assert [(each["run_id"] == run, each["state"], each["parent_run_id"]) for each in listed] == [
        (False, "done", run),
        (True, "done", None),
    ]
    story = (await http.get(f"/api/v1/runs/{run}/story")).json()
    waits = [entry for entry in story["story"] if entry.get("reason") == "child"]
    assert len(waits) == 1
    events = (await http.get(f"/api/v1/runs/{run}/events")).text
    assert events.count("event: tool_started") == 1
    assert events.count("event: tool_finished") == 1
    assert '"preview":"forty-two"' in events.replace('": "', '":"')
    assert rows(stack.database_url, "select count(*) from sessions where closed_at is null") == [(1,)]
    assert rows(stack.database_url, "select distinct principal from costs") == rows(
        stack.database_url, "select distinct principal from runs"
    )
    check_histories(stack.database_url)


async def test_five_at_once_in_a_window_of_one(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """Their answers come in the order of the calls, and nobody waits for ever."""
    await asyncio.to_thread(stack.workers)
    body = await say(http, "five")
    assert body["reply"] == " | ".join(["forty-two"] * 5)
    assert len(asked_for(models, "five")) == 2
    assert rows(stack.database_url, "select state, count(*) from runs group by 1") == [("done", 6)]


async def test_its_tools_are_those_it_was_given(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """A model that names a denied tool, or one outside the list, reaches nothing."""
    await asyncio.to_thread(stack.workers)
    body = await say(http, "denied")
    assert body["reply"].startswith("Error: Unknown tool 'sessions_spawn'. Available tools: read, exec / hi")
    body = await say(http, "scoped")
    assert body["reply"].startswith("Error: Unknown tool 'sessions_spawn'. Available tools: read / Error: Unknown tool")
    assert rows(stack.database_url, "select count(*) from children") == [(2,)]


async def test_what_can_not_be_spawned_is_an_error_result(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """It names what there is; a model that there is gets the task."""
    await asyncio.to_thread(stack.workers)
    assert (await say(http, "unknown"))["reply"] == "Error: Unknown model 'giant'. Available models: cheap, primary"
    missing = (await say(http, "missing"))["reply"]
    assert missing == "Error: Unknown tool 'teleport'. Available tools: exec, read, sessions_spawn"
    assert (await say(http, "other"))["reply"] == "forty-two"
    (child,) = asked_for(models, "quick")
    assert child["model"] == "scripted-cheap"


async def test_turns_and_time_are_limited(stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient) -> None:
    """And the parent goes on with what it has heard."""
    await asyncio.to_thread(stack.workers)
    assert "limit of 2 turns" in (await say(http, "turns"))["reply"]
    began = time.monotonic()
    hasty = await say(http, "hasty")
    assert hasty["reply"] == "Error: the sub-agent failed: This took longer than it may, and was stopped."
    assert time.monotonic() - began < 8


async def test_its_money_is_its_parents(stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient) -> None:
    """0.05 for all: three dear calls of the child are the end of both."""
    await asyncio.to_thread(stack.workers)
    body = await say(http, "dear")
    assert "Stopped: this message reached its cost limit." in body["notices"]
    assert len(asked_for(models, "loops")) == 3
    assert len(asked_for(models, "dear")) == 1


def owner_of_the_child(stack: Stack, workers: Sequence[Process]) -> Process:
    ((pid,),) = rows(
        stack.database_url,
        "select w.pid from conversations c join workers w on w.id = c.owner where c.key like 'system:sub:%%'",
    )
    return next(worker for worker in workers if worker.popen.pid == pid)


async def test_a_sub_agent_outlives_its_worker(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """Killed in its first call: another one finishes it, and the parent answers once."""
    workers = await asyncio.to_thread(stack.workers, 2)
    run = await accepted(http, "hangs")
    await until(stack, CHILD_IN_HAND, 1)
    await asyncio.to_thread(wait_until, lambda: len(asked_for(models, "slow")) == 1, "the child asks its model")
    owner_of_the_child(stack, workers).popen.send_signal(signal.SIGKILL)
    await until(stack, REPLY, "at last", run, within=60)
    assert len(asked_for(models, "hangs")) == 2
    assert rows(stack.database_url, "select attempts from runs where message ? 'child'") == [(2,)]
    assert rows(stack.database_url, "select count(*) from children") == [(1,)]
    assert ends_told(stack.redis_url, [run]) == {run: 1}
    check_histories(stack.database_url)


async def test_both_workers_may_die_and_redis_be_emptied(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """All that is known of parent and child stands in Postgres."""
    workers = await asyncio.to_thread(stack.workers, 2)
    run = await accepted(http, "hangs")
    await until(stack, CHILD_IN_HAND, 1)
    await asyncio.to_thread(wait_until, lambda: len(asked_for(models, "slow")) == 1, "the child asks its model")
    for worker in workers:
        worker.popen.send_signal(signal.SIGKILL)
    with redis.Redis.from_url(stack.redis_url) as connection:
        connection.flushall()
    await asyncio.to_thread(stack.workers)
    await until(stack, REPLY, "at last", run, within=60)
    assert len(asked_for(models, "hangs")) == 2
    check_histories(stack.database_url)


async def test_a_cancel_of_the_parent_reaches_its_child(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """Within five seconds, in another worker's hand; the parent never goes on."""
    await asyncio.to_thread(stack.workers, 2)
    run = await accepted(http, "hangs")
    await until(stack, CHILD_IN_HAND, 1)
    await until(stack, STATE, "waiting", run)
    assert (await http.post(f"/api/v1/runs/{run}/cancel")).status_code == 200
    took = await until(stack, "select state from runs where message ? 'child'", "cancelled", within=5)
    assert took < 5
    await until(stack, "select count(*) from children where collected_at is null", 0, within=5)
    assert rows(stack.database_url, STATE, run) == [("cancelled",)]
    assert len(asked_for(models, "hangs")) == 1
    assert rows(stack.database_url, STILL_READ) == [(0,)]
