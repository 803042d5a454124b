"""Workers die and others go on: what was accepted is answered, once, and no act is silently repeated."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.scripted_model_server import Hang, Say, Script, ScriptedModelServer, Use
from tests.stack import Stack, async_client, client, model_toml, open_stack, wait_until

pytestmark = pytest.mark.alone

APPEND = "echo done >> acts.txt; sleep 3"


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Slow answers, and an act that takes its time."""
    scripts: dict[str, Script] = {
        "slow": [Hang(2.0), Say("That took a while.")],
        "act": [Use([("exec", {"command": APPEND})]), Say("I looked after it.")],
        "edit": [
            Use([("edit", {"file_path": "plan.txt", "old_string": "old", "new_string": "new"})]),
            Use([("exec", {"command": "sleep 3"})]),
            Say("Edited."),
        ],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """One provider, many processes."""
    toml = model_toml("anthropic", models.base_url("anthropic"))
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


def run_states(stack: Stack) -> list[tuple[str, int]]:
    """State and attempts of all runs, in order of acceptance."""
    with psycopg.connect(stack.database_url) as database:
        return database.execute(
            "select state, attempts from runs where kind = 'message' order by accepted_at"
        ).fetchall()


async def test_a_chat_whose_worker_is_killed_is_answered_once(stack: Stack, models: ScriptedModelServer) -> None:
    """Kill -9 in the middle of a model call; another worker finishes, and the waiting client never notices."""
    gateway = stack.gateway()
    (first,) = stack.workers()
    async with async_client(gateway) as http:
        waiting = asyncio.create_task(http.post("/api/v1/chat", json={"message": "[[script:slow]]"}))
        await asyncio.to_thread(wait_until, lambda: sum(models.calls.values()) == 1, "the model was asked")
        await asyncio.to_thread(first.kill)
        killed_at = time.monotonic()
        await asyncio.to_thread(stack.workers)
        reply = (await waiting).json()
    assert reply["reply"] == "That took a while."
    assert time.monotonic() - killed_at < 15
    assert run_states(stack) == [("done", 2)]
    with psycopg.connect(stack.database_url) as database:
        said = database.execute("select role, count(*) from messages group by role order by role").fetchall()
        assert said == [("assistant", 1), ("user", 1)]
        bills = database.execute(
            "select estimated, count(*) from costs group by estimated order by estimated"
        ).fetchall()
        assert bills == [(False, 1), (True, 1)]  # the call that was cut by the kill is booked as a guess


async def test_an_act_in_flight_at_the_kill_is_in_doubt_and_not_repeated(stack: Stack) -> None:
    """The command ran once; model and person are told that its end is unknown."""
    gateway = stack.gateway()
    (first,) = stack.workers()
    acts = stack.workspace / "acts.txt"
    async with async_client(gateway) as http:
        waiting = asyncio.create_task(http.post("/api/v1/chat", json={"message": "[[script:act]]"}))
        await asyncio.to_thread(wait_until, acts.exists, "the act has begun")
        await asyncio.to_thread(first.kill)
        await asyncio.to_thread(stack.workers)
        reply = (await waiting).json()
    assert acts.read_text() == "done\n"
    assert reply["reply"] == "I looked after it."
    assert any("may or may not have happened" in notice for notice in reply["notices"])
    with psycopg.connect(stack.database_url) as database:
        assert database.execute("select tool, state from effects").fetchall() == [("exec", "in_doubt")]


async def test_an_edit_that_was_made_before_the_kill_is_known_to_be_made(stack: Stack) -> None:
    """Stored steps are not done again: the edit stands, and its model answer is not bought twice."""
    gateway = stack.gateway()
    (first,) = stack.workers()
    plan = stack.workspace / "plan.txt"
    plan.write_text("an old plan")
    async with async_client(gateway) as http:
        waiting = asyncio.create_task(http.post("/api/v1/chat", json={"message": "[[script:edit]]"}))
        await asyncio.to_thread(wait_until, lambda: plan.read_text() == "an new plan", "the edit was made")
        await asyncio.sleep(0.3)
        await asyncio.to_thread(first.kill)
        await asyncio.to_thread(stack.workers)
        reply = (await waiting).json()
    assert reply["reply"] == "Edited."
    assert plan.read_text() == "an new plan"


def test_a_worker_that_is_told_to_stop_hands_back_and_no_attempt_is_counted(stack: Stack) -> None:
    """SIGTERM in the middle of a run: its successor goes on, and the run does not look as if it had failed."""
    gateway = stack.gateway()
    (first,) = stack.workers()
    with client(gateway) as http:
        with pytest.raises(Exception, match=r".*"), client(gateway) as impatient:
            impatient.post("/api/v1/chat", json={"message": "[[script:act]]"}, timeout=1.0)
        stack.workers()
        assert first.stop() == 0
        wait_until(lambda: run_states(stack)[0][0] == "done", "the run is done")
        assert run_states(stack) == [("done", 1)]
        assert (stack.workspace / "acts.txt").read_text() == "done\n"
        assert "hello" in http.post("/api/v1/chat", json={"message": "hello"}).json()["reply"]


async def test_two_gateways_and_two_workers_serve_one_session_in_turn(stack: Stack) -> None:
    """Nothing is configured for it: same Redis, same Postgres, other ports."""
    gateways = [stack.gateway(), stack.gateway()]
    stack.workers(2)
    async with async_client(gateways[0]) as left, async_client(gateways[1]) as right:
        for turn in range(6):
            http = (left, right)[turn % 2]
            reply = (await http.post("/api/v1/chat", json={"message": f"message {turn}"})).json()
            assert f"message {turn}" in reply["reply"]
        together = await asyncio.gather(
            *(
                (left, right)[number % 2].post("/api/v1/chat", json={"message": f"at once {number}"})
                for number in range(20)
            )
        )
        assert all(f"at once {number}" in reply.json()["reply"] for number, reply in enumerate(together))
        stream = await left.post("/api/v1/chat/stream", json={"message": "follow me"})
        run = stream.text.split('"run_id":"')[1].split('"')[0]
        resumed = await right.get(f"/api/v1/runs/{run}/events", headers={"Last-Event-ID": "0-1"})
        assert resumed.text.count("event: done") == 1
        assert "event: accepted" not in resumed.text
    with psycopg.connect(stack.database_url) as database:
        assert database.execute("select count(*) from sessions").fetchone() == (1,)
        roles = [row[0] for row in database.execute("select role from messages order by ordinal").fetchall()]
        assert roles == ["user", "assistant"] * 27
        workers = database.execute("select count(distinct owner) from conversations").fetchone()
        assert workers == (0,)  # nobody holds what is idle
