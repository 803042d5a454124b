"""What becomes of a plugin's faults, and of the tools that compute in a process of their own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.agent_worker.edge.plugins.children import MODULE, PROJECT
from services.agent_worker.edge.plugins.plugin_tool import Manner
from services.agent_worker.edge.plugins.shelf import PluginShelf, open_plugins
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.ports import ToolUse
from tests.plugin_terms import QUICK, SECRET, put, terms

FAULTS = """
    import lucyd_plugin

    calls = []

    def fail(kind, times=9, idempotency_key=""):
        calls.append(idempotency_key)
        if len(calls) > times:
            return f"done after {len(calls)} with {set(calls)}"
        raise getattr(lucyd_plugin, kind)("the key sk-a-secret-that-nobody-may-read is wrong")

    def leak():
        return "my key is sk-a-secret-that-nobody-may-read"

    def cancelled():
        import asyncio
        raise asyncio.CancelledError

    async def cancelled_too():
        import asyncio
        raise asyncio.CancelledError

    def leave():
        raise SystemExit(3)

    def odd():
        return {"a": [1, 2]}

    def nothing():
        return None

    SCHEMA = {"type": "object", "properties": {"kind": {"type": "string"}, "times": {"type": "integer"}}}
    TOOLS = [
        {"name": name, "description": "d", "input_schema": SCHEMA, "function": function, "effect": effect}
        for name, function, effect in [
            ("fail", fail, "once"), ("fail_safely", fail, "idempotent"), ("leak", leak, "read"),
            ("cancelled", cancelled, "read"), ("cancelled_too", cancelled_too, "read"), ("leave", leave, "read"),
            ("odd", odd, "read"), ("nothing", nothing, "read"),
        ]
    ]
"""
NAMES = ("fail", "fail_safely", "leak", "cancelled", "cancelled_too", "leave", "odd", "nothing")

HEAVY = """
    import os, signal, time

    def count(limit, marker=""):
        if marker:
            open(marker, "w").write(str(os.getpid()))
        end = time.monotonic() + limit
        while time.monotonic() < end:
            pass
        print("this is no answer")
        return os.getpid()

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def environment():
        return sorted(os.environ)

    def refuse():
        from lucyd_plugin import PluginInvalidInput
        raise PluginInvalidInput("not that")

    def broken():
        raise ValueError("sk-a-secret-that-nobody-may-read")

    async def later(idempotency_key):
        return idempotency_key

    SCHEMA = {"type": "object", "properties": {"limit": {"type": "number"}, "marker": {"type": "string"}}}
    TOOLS = [{"name": f.__name__, "description": "d", "input_schema": SCHEMA, "function": f, "cpu_heavy": True,
              "timeout": 15} for f in (count, die, environment, refuse, broken, later)]
"""
COMPUTING = ("count", "die", "environment", "refuse", "broken", "later")


async def said(shelf: PluginShelf, use: ToolUse, name: str, **arguments: object) -> str:
    toolbox = LocalToolbox([], output_truncation=30_000, max_parallel=4, sources=[shelf])
    return (await toolbox.use({"id": "c", "name": name, "arguments": dict(arguments)}, use))["content"]


def gone(pid: int) -> bool:
    """Whether no process of that number runs any more."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


async def until(holds: Any) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("PluginNotConfigured", "Error: 'fail' is not configured; the operator has to do that"),
        ("PluginInvalidInput", "Error: the key [secret] is wrong"),
        ("PluginTransient", "Error: 'fail' can't be reached right now"),
        ("PluginUpstream", "Error: the service behind 'fail' failed"),
        ("PluginAuth", "Error: the service behind 'fail' refuses the key that it was given"),
        ("PluginQuota", "Error: the service behind 'fail' allows no more right now"),
        ("PluginEmptyOutput", "Error: 'fail' had no result"),
        ("PluginError", "Error: 'fail' failed"),
    ],
)
async def test_each_kind_of_fault_has_its_sentence(tmp_path: Path, use: ToolUse, kind: str, sentence: str) -> None:
    """The model learns what it can do about it, and no message that may quote a key."""
    put(tmp_path / "p", "a.py", FAULTS)
    async with open_plugins(terms(tmp_path / "p", *NAMES), output_limit=30_000, manner=QUICK) as shelf:
        assert await said(shelf, use, "fail", kind=kind) == sentence


@pytest.mark.parametrize(
    ("tool", "kind", "calls"),
    [
        ("fail", "PluginTransient", 3),
        ("fail_safely", "PluginTransient", 3),
        ("fail", "PluginUpstream", 1),
        ("fail_safely", "PluginUpstream", 3),
        ("fail_safely", "PluginAuth", 1),
    ],
)
async def test_what_may_pass_is_tried_three_times_and_never_where_it_could_happen_twice(
    tmp_path: Path, use: ToolUse, tool: str, kind: str, calls: int
) -> None:
    """A server that broke off in the middle may have done it; only who says that nothing was done is called again."""
    put(tmp_path / "p", "a.py", FAULTS)
    async with open_plugins(terms(tmp_path / "p", *NAMES), output_limit=30_000, manner=QUICK) as shelf:
        assert (await said(shelf, use, tool, kind=kind)).startswith("Error: ")
        told = await said(shelf, use, "fail_safely", kind=kind, times=0)
        assert told == f"done after {calls + 1} with {{'run:0:0'}}"


async def test_a_pause_lies_between_two_tries(tmp_path: Path, use: ToolUse) -> None:
    """A busy server is not helped by a second call at once; the beat is looked at again before it."""
    put(tmp_path / "p", "a.py", FAULTS)
    asked: list[float] = []

    async def ready() -> None:
        asked.append(time.monotonic())

    manner = Manner(QUICK.timeout, pause=0.2)
    async with open_plugins(terms(tmp_path / "p", *NAMES), output_limit=30_000, manner=manner) as shelf:
        await said(shelf, replace(use, ready=ready), "fail", kind="PluginTransient")
    assert len(asked) == 3
    assert asked[2] - asked[1] >= 0.2


async def test_no_result_tells_a_secret_and_none_ends_more_than_itself(tmp_path: Path, use: ToolUse) -> None:
    """What a plugin raises or gives back is text for a model, whatever it is."""
    put(tmp_path / "p", "a.py", FAULTS)
    async with open_plugins(terms(tmp_path / "p", *NAMES), output_limit=30_000, manner=QUICK) as shelf:
        assert await said(shelf, use, "leak") == "my key is [secret]"
        assert await said(shelf, use, "cancelled") == "Error: Tool 'cancelled' failed"
        assert await said(shelf, use, "cancelled_too") == "Error: Tool 'cancelled_too' failed"
        assert await said(shelf, use, "leave") == "Error: Tool 'leave' failed"
        assert await said(shelf, use, "odd") == '{"a": [1, 2]}'
        assert await said(shelf, use, "nothing") == "(no output)"
        wrong = await said(shelf, use, "leak", kind="x")
        assert wrong == "Error: Invalid arguments for 'leak': got an unexpected keyword argument 'kind'"


async def test_what_computes_does_so_in_another_process_which_is_kept(tmp_path: Path, use: ToolUse) -> None:
    """The worker's threads share one lock of the interpreter; its processes do not."""
    put(tmp_path / "p", "a.py", HEAVY)
    async with open_plugins(terms(tmp_path / "p", *COMPUTING), output_limit=30_000, manner=QUICK) as shelf:
        first = await said(shelf, use, "count", limit=0.01)
        assert int(first) != os.getpid()
        assert await said(shelf, use, "count", limit=0.01) == first
        assert await said(shelf, use, "refuse") == "Error: not that"
        assert await said(shelf, use, "broken") == "Error: Tool 'broken' failed"
        assert await said(shelf, use, "later") == "run:0:0"
    await until(lambda: gone(int(first)))


async def test_a_process_that_crashes_is_an_error_and_the_next_call_has_a_new_one(tmp_path: Path, use: ToolUse) -> None:
    """A fault in C code takes its process along and nothing else."""
    put(tmp_path / "p", "a.py", HEAVY)
    async with open_plugins(terms(tmp_path / "p", *COMPUTING), output_limit=30_000, manner=QUICK) as shelf:
        first = await said(shelf, use, "count", limit=0)
        assert await said(shelf, use, "die") == "Error: the process that ran 'die' ended before it had a result"
        second = await said(shelf, use, "count", limit=0)
        assert second not in {first, str(os.getpid())}
        os.kill(int(second), signal.SIGKILL)  # and one that dies while nobody asks it
        await until(lambda: gone(int(second)))
        await asyncio.sleep(0.05)
        assert (await said(shelf, use, "count", limit=0)).isdecimal()


async def test_a_cancelled_call_ends_with_its_process(tmp_path: Path, use: ToolUse) -> None:
    """A run that is stopped computes no longer."""
    put(tmp_path / "p", "a.py", HEAVY)
    marker = tmp_path / "marker"
    async with open_plugins(terms(tmp_path / "p", *COMPUTING), output_limit=30_000, manner=QUICK) as shelf:
        call = asyncio.create_task(said(shelf, use, "count", limit=60, marker=str(marker)))
        await until(lambda: marker.exists() and marker.read_text())
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        await until(lambda: gone(int(marker.read_text())))


async def test_one_that_computes_too_long_is_given_up_and_killed(tmp_path: Path, use: ToolUse) -> None:
    """The time of a tool is the plugin's word, and it is kept."""
    put(tmp_path / "p", "a.py", HEAVY.replace('"timeout": 15', '"timeout": 2'))
    marker = tmp_path / "marker"
    async with open_plugins(terms(tmp_path / "p", *COMPUTING), output_limit=30_000, manner=QUICK) as shelf:
        told = await said(shelf, use, "count", limit=60, marker=str(marker))
        assert told == "Error: 'count' took longer than 2 seconds and was given up"
        await until(lambda: gone(int(marker.read_text())))


async def test_so_many_compute_at_once(tmp_path: Path, use: ToolUse) -> None:
    """Others wait; the processors are the worker's, too."""
    put(tmp_path / "p", "a.py", HEAVY)
    given = replace(terms(tmp_path / "p", *COMPUTING), processes=1)
    async with open_plugins(given, output_limit=30_000, manner=QUICK) as shelf:
        pids = await asyncio.gather(*(said(shelf, use, "count", limit=0.05) for _ in range(3)))
        assert len(set(pids)) == 1


async def test_its_process_sees_no_secret_but_those_its_settings_name(tmp_path: Path, use: ToolUse) -> None:
    """Code that computes has no business with the keys of the house."""
    put(tmp_path / "p", "a.py", HEAVY)
    put(tmp_path / "p", "a.toml", 'api_key_env = "OF_THE_PLUGIN_KEY"\n')
    secrets = {"OF_THE_PLUGIN_KEY": "for-the-plugin", "CANARY_TOKEN": "for-nobody", "LUCYD_HTTP_TOKEN": "the-door"}
    async with open_plugins(
        terms(tmp_path / "p", *COMPUTING, environment=secrets), output_limit=30_000, manner=QUICK
    ) as shelf:
        seen = json.loads(await said(shelf, use, "environment"))
    assert "OF_THE_PLUGIN_KEY" in seen
    assert {"CANARY_TOKEN", "LUCYD_HTTP_TOKEN"} & set(seen) == set()
    assert os.environ.pop("OF_THE_PLUGIN_KEY") == "for-the-plugin"
    assert SECRET not in json.dumps(seen)


async def test_a_process_ends_with_the_worker_that_started_it(tmp_path: Path) -> None:
    """Kill -9 leaves nobody behind who computes for no one; it ends in the middle of a call."""
    plugin, marker = put(tmp_path / "p", "a.py", HEAVY), tmp_path / "marker"
    child = subprocess.Popen(
        [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT, env={"PATH": "/bin"}
    )
    assert child.stdin is not None
    assert child.stdout is not None
    for line in (
        {"path": str(plugin), "sections": {}, "tools": []},
        {"tool": "count", "arguments": {"limit": 60, "marker": str(marker)}, "limit": 100},
    ):
        child.stdin.write(json.dumps(line).encode() + b"\n")
    child.stdin.flush()
    await until(lambda: marker.exists() and marker.read_text())
    child.stdin.close()  # as the system does with whatever a killed process had open
    assert await asyncio.to_thread(child.wait, 10) == 0
    assert child.stdout.read() == b""
    child.stdout.close()
