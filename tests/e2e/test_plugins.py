"""A scripted model drives tools of plugins over the wire, through real workers, also through their death."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.command_line import lucyd
from tests.plugin_terms import put
from tests.scripted_model_server import Say, Script, ScriptedModelServer, Use
from tests.stack import TOKEN, Stack, async_client, client, model_toml, open_stack, text_of, wait_until

SEED = Path(__file__).resolve().parents[1] / "data" / "plugins" / "seed_era.txt"
KEY = "canary-of-the-weather"
ACTS = """
    import time
    from pathlib import Path

    def act(file, idempotency_key):
        with Path(file).open("a") as acts:
            acts.write(idempotency_key + "\\n")
        if len(Path(file).read_text().splitlines()) == 1:
            time.sleep(30)
        return "acted"

    def crash():
        raise ValueError("canary-of-the-weather")

    SCHEMA = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
    NONE = {"type": "object", "properties": {}}
    TOOLS = [
        {"name": "act_once", "description": "d", "input_schema": SCHEMA, "function": act},
        {"name": "act_again", "description": "d", "input_schema": SCHEMA, "function": act, "effect": "idempotent"},
        {"name": "crash", "description": "d", "input_schema": NONE, "function": crash},
    ]
"""
TOOLS = """
[tools]
enabled = ["session_status", "weather", "dice", "act_once", "act_again", "crash"]

[tools.weather]
api_key_env = "WEATHER_KEY"
"""


@pytest.fixture
def models(tmp_path: Path) -> Iterator[ScriptedModelServer]:
    """Calls of every kind."""
    acts = str(tmp_path / "acts.txt")
    scripts: dict[str, Script] = {
        "all": [
            Use(
                [
                    ("weather", {"city": "Graz", "days": "2"}),
                    ("weather", {}),
                    ("dice", {"sides": 1}),
                    ("crash", {}),
                    ("hidden", {}),
                ]
            ),
            Say("I looked."),
        ],
        "once": [Use([("act_once", {"file": acts})]), Say("I looked after it.")],
        "again": [Use([("act_again", {"file": acts})]), Say("I did it.")],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """A folder of plugins beside the configuration, one of them broken."""
    put(tmp_path / "plugins.d", "aaa_broken.py", "import nothing_of_that_name\n")
    put(tmp_path / "plugins.d", "acts.py", ACTS)
    shutil.copy(SEED, tmp_path / "plugins.d" / "weather.py")
    put(tmp_path, ".env", f"WEATHER_KEY={KEY}\n")
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=TOOLS)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


def acts_of(stack: Stack) -> list[str]:
    file = stack.folder / "acts.txt"
    return file.read_text("utf-8").splitlines() if file.exists() else []


def test_tools_of_plugins_and_each_of_their_errors(stack: Stack) -> None:
    """A seed-era file dropped in beside a broken one; no key reaches the model, the history or the log."""
    gateway, (worker,) = stack.gateway(), stack.workers()
    with client(gateway) as http:
        reply = http.post("/api/v1/chat", json={"message": "[[script:all]]"}).json()
        assert reply["reply"] == "I looked."
        events = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").json()["events"]
        results = [event["content"] for event in events if event["type"] == "tool_result"]
    assert results[0] == "Graz: 14 degrees celsius, says Testbert"
    assert results[1] == "Error: Invalid arguments for 'weather': missing required argument 'city'"
    assert results[2] == "Error: Tool 'dice' failed"
    assert results[3] == "Error: Tool 'crash' failed"
    assert results[4].startswith("Error: Unknown tool 'hidden'. Available tools: session_status, act_once")
    told = text_of(worker)
    assert "there is no module 'nothing_of_that_name' here" in told
    assert KEY not in told + json.dumps(results)


def test_the_operator_reads_what_became_of_each(stack: Stack) -> None:
    """Over HTTP and at the terminal, from whatever worker it failed in."""
    gateway, _ = stack.gateway(), stack.workers()
    with client(gateway) as http:

        def told() -> list[str]:
            return [plugin["name"] for plugin in http.get("/api/v1/plugins").json()["plugins"]]

        wait_until(lambda: "weather" in told(), "the worker has told of its plugins")
        assert told() == ["aaa_broken", "acts", "elevenlabs", "weather", "whisper"]
        broken = http.get("/api/v1/plugins/aaa_broken/health").json()
        assert (broken["state"], broken["failed_in"]) == ("failed", 1)
        assert broken["reason"].endswith("there is no module 'nothing_of_that_name' here")
    done = lucyd(stack.folder, "plugins", "list", "--url", gateway.url, LUCYD_HTTP_TOKEN=TOKEN, COLUMNS="400")
    assert done.returncode == 1
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "nothing_of_that_name" in lines["aaa_broken"]
    assert "weather dice" in lines["weather"]
    assert "tts: it is not in [tools] enabled" in lines["elevenlabs"]


@pytest.mark.parametrize(("script", "states", "acts"), [("once", "in_doubt", 1), ("again", "done", 2)])
async def test_a_call_whose_worker_is_killed(stack: Stack, script: str, states: str, acts: int) -> None:
    """What is not declared otherwise happens once and is in doubt; what says that it may is repeated by its key."""
    gateway = stack.gateway()
    (first,) = stack.workers()
    async with async_client(gateway) as http:
        waiting = asyncio.create_task(http.post("/api/v1/chat", json={"message": f"[[script:{script}]]"}))
        await asyncio.to_thread(wait_until, lambda: acts_of(stack), "the call has begun")
        await asyncio.to_thread(first.kill)
        await asyncio.to_thread(stack.workers)
        reply = (await waiting).json()
    done = acts_of(stack)
    assert len(done) == acts
    assert len(set(done)) == 1
    assert done[0].startswith(reply["run_id"])
    assert bool(reply.get("notices")) == (script == "once")
    with psycopg.connect(stack.database_url) as database:
        assert database.execute("select state from effects").fetchall() == [(states,)]
