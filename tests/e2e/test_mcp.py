"""A scripted model uses tools of MCP servers through a real worker: programs, and one over HTTP."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcp_worlds import is_running
from tests.scripted_model_server import Say, Script, ScriptedModelServer, Use
from tests.stack import PROJECT, Process, Stack, client, free_port, model_toml, open_stack, text_of, wait_until

SECRET = "canary-of-the-mcp-server"


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """A model server with the conversations of this file."""
    scripts: dict[str, Script] = {
        "both": [
            Use([("one__echo", {"text": "from one"}), ("two__echo", {"text": "from two", "times": "2"})]),
            Say("I heard both."),
        ],
        "many": [
            Use(
                [
                    ("one__fail", {"why": "no such day"}),
                    ("one__picture", {}),
                    ("one__echo", {"words": "x"}),
                    ("one__variable", {"name": "ITS_TOKEN"}),
                    ("one__variable", {"name": "LUCYD_HTTP_TOKEN"}),
                    ("one__slow", {"seconds": 60}),
                    ("one__denied", {}),
                ]
            ),
            Say("So it is."),
        ],
        "dies": [
            Use([("one__die", {})]),
            Use([("one__echo", {"text": "back again"})]),
            Say("It is back."),
        ],
        "http": [Use([("web__echo", {"text": "over HTTP"})]), Say("Heard.")],
        "me": [Use([("one__me", {})]), Say("Known.")],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def web() -> Iterator[tuple[int, list[subprocess.Popen[bytes]]]]:
    """A server over streamable HTTP, and what was started; ended with the test."""
    port = free_port()
    started = [_serve(port)]
    yield port, started
    for process in started:
        process.kill()
        process.wait()


def _serve(port: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tests.mcp_server", "http", str(port)]
    return subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def stack(
    models: ScriptedModelServer, web: tuple[int, Any], tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    """Two programs with tools of the same names, one that can't be started, and one over HTTP."""
    program = f'command = "{sys.executable}"\nargs = ["-m", "tests.mcp_server"]\ncwd = "{PROJECT}"\n'
    servers = f"""
[mcp.servers.one]
{program}
env = ["ITS_TOKEN"]
call_timeout = 3
deny = ["denied"]
[mcp.servers.two]
{program}
[mcp.servers.dead]
command = "/no/such/program"
[mcp.servers.web]
url = "http://127.0.0.1:{web[0]}/mcp"
token_env = "ITS_TOKEN"
"""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=servers)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        opened.environment["ITS_TOKEN"] = SECRET
        yield opened


def _ready(stack: Stack, *names: str) -> tuple[Process, Process]:
    """A gateway, and a worker that is connected with these servers."""
    gateway, (worker,) = stack.gateway(), stack.workers()
    for name in names:
        wait_until(lambda name=name: _is_up(worker, name), f"{name} is connected")
    return gateway, worker


def _is_up(worker: Process, name: str, *, times: int = 1) -> bool:
    lines = text_of(worker).splitlines()
    return sum("mcp_server_up" in line and f'"server": "{name}"' in line for line in lines) >= times


def _results(http: httpx2.Client, script: str) -> tuple[str, list[str]]:
    reply = http.post("/api/v1/chat", json={"message": f"[[script:{script}]]"}).json()
    history = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").json()["events"]
    return reply["reply"], [event["content"] for event in history if event["type"] == "tool_result"]


def test_a_model_uses_servers_of_both_kinds_beside_a_dead_one(stack: Stack, models: ScriptedModelServer) -> None:
    """Two with tools of one name, each reached by its own; the dead one is told of and holds nobody up."""
    gateway, worker = _ready(stack, "one", "two", "web")
    with client(gateway) as http:
        assert _results(http, "both") == ("I heard both.", ["from one", "from two from two"])
        assert _results(http, "http")[1][-1:] == ["over HTTP"]
    offered = [tool["name"] for tool in models.requests[0]["body"]["tools"]]
    assert {"one__echo", "two__echo", "web__echo"} <= set(offered)
    assert not any(name.startswith("dead__") for name in offered)
    assert '"server": "dead"' in text_of(worker)
    assert "was not found" in text_of(worker)


def test_each_error_of_a_server_is_a_result_that_a_model_can_read(stack: Stack, models: ScriptedModelServer) -> None:
    """And the secret that the server was given is in none of them, nor in the log."""
    gateway, worker = _ready(stack, "one")
    with client(gateway) as http:
        reply, (failed, pictured, unknown, given, kept, late, denied) = _results(http, "many")
    assert reply == "So it is."
    assert failed == "Error: Error executing tool fail: no such day"
    assert "[image of type image/png, 67 bytes" in pictured
    assert unknown.startswith("Error: Invalid arguments for 'one__echo': ")
    assert (given, kept) == ("[secret]", "(not set)")
    assert late.startswith("Error: The MCP server 'one' did not answer within 3 s")
    assert denied.startswith("Error: Unknown tool 'one__denied'")
    assert SECRET not in text_of(worker)
    assert SECRET not in str(list(models.requests))


def test_one_killed_in_a_call_gives_an_error_and_comes_back(stack: Stack) -> None:
    """The next call of the same run finds it."""
    gateway, _ = _ready(stack, "one")
    with client(gateway) as http:
        reply, (died, back) = _results(http, "dies")
    assert reply == "It is back."
    assert died.startswith("Error: The connection with the MCP server 'one' ended in the middle of the call")
    assert back == "back again"


def test_a_server_over_http_that_was_away_is_there_again(stack: Stack, web: tuple[int, Any]) -> None:
    """Nobody has to start the worker anew."""
    gateway, worker = _ready(stack, "web")
    port, started = web
    started[0].kill()
    started[0].wait()
    with client(gateway) as http:
        assert _results(http, "http")[1][0].startswith("Error: The")
        started.append(_serve(port))
        wait_until(lambda: _is_up(worker, "web", times=2), "it is connected again")
        assert _results(http, "http")[1][-1] == "over HTTP"


def test_no_server_outlives_a_worker_that_is_killed(stack: Stack) -> None:
    """Whoever starts workers again would have more of them each time."""
    gateway, worker = _ready(stack, "one")
    with client(gateway) as http:
        pid = int(_results(http, "me")[1][0])
    assert is_running(pid)
    os.kill(worker.popen.pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "the server is gone", within=10)
