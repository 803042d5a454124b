"""Commands in a sandbox: what they need is there, secrets are not, and nothing outlives them."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from services.agent_worker.edge.tools.exec import ExecTool
from services.agent_worker.edge.tools.sandbox import Sandbox, find_sandbox
from services.agent_worker.edge.tools.shell_process import ShellLimits
from services.agent_worker.ports import ToolFailed, ToolUse

CANARY = "canary-7f3a"
Mode = Literal["auto", "required", "off"]


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A home with a data directory in it, in which the workspace lies, as after ``lucyd up``."""
    home = tmp_path / "home"
    (home / ".lucyd" / "workspace").mkdir(parents=True)
    (home / ".lucyd" / "http_token").write_text(CANARY)
    (home / ".lucyd" / "workspace" / "notes.md").write_text("a note")
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text(CANARY)
    (home / "papers").mkdir()
    (home / "papers" / ".env").write_text(CANARY)
    (home / "papers" / "plan.txt").write_text("the plan")
    return home


def sandbox_of(home: Path, *, mode: Mode = "auto", network: bool = False, readable: Sequence[Path] = ()) -> Sandbox:
    return find_sandbox(
        mode,
        workspace=home / ".lucyd" / "workspace",
        writable=[home / "papers"],
        readable=readable,
        hidden=[home / ".lucyd", home / "papers" / ".env"],
        environment=environment(home),
        network=network,
    )


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture
def sandbox(places: Path) -> Sandbox:
    found = sandbox_of(places)
    if not found.words:
        pytest.skip(f"this machine has no sandbox: {found.why}")
    return found


@pytest.fixture
def run(places: Path, sandbox: Sandbox, use: ToolUse) -> Callable[..., Any]:
    tool = ExecTool(
        places / ".lucyd" / "workspace",
        environment(places),
        output_limit=10_000,
        sandbox=sandbox,
        limits=ShellLimits(cpu_seconds=30, memory_bytes=500_000_000, file_bytes=2_000_000),
    )

    async def run_command(command: str, **arguments: Any) -> str:
        return await tool.run({"command": command, **arguments}, use)

    return run_command


async def test_a_command_works_in_the_workspace(run: Callable[..., Any], places: Path) -> None:
    """What it writes there stays."""
    assert await run("pwd && cat notes.md && echo more > new.md") == f"{places}/.lucyd/workspace\na note"
    assert (places / ".lucyd" / "workspace" / "new.md").read_text() == "more\n"


async def test_programs_of_the_path_run(run: Callable[..., Any]) -> None:
    """Also those that are installed beside the system, as this Python is."""
    assert await run("python3 -c 'import json; print(json.dumps([1]))'") == "[1]"


async def test_an_allowed_folder_can_be_written(run: Callable[..., Any], places: Path) -> None:
    """As by the other tools."""
    assert await run(f"cat {places}/papers/plan.txt; echo done > {places}/papers/result") == "the plan"
    assert (places / "papers" / "result").read_text() == "done\n"


async def test_secrets_are_not_there(run: Callable[..., Any], places: Path) -> None:
    """Token, keys of the home, .env, and what other processes were given."""
    for command in (
        f"cat {places}/.lucyd/http_token",
        f"cat {places}/.ssh/id",
        f"cat {places}/papers/.env",
        "cat /etc/shadow",
        f"grep -ra {CANARY} {places} /etc/passwd",
    ):
        said = await run(command)
        assert CANARY not in said, command
        assert "root:" not in said, command


async def test_other_processes_are_out_of_sight(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment of the worker nor anybody else's can be read or signalled."""
    monkeypatch.setenv("A_PLAIN_NAME", CANARY)
    own = await run(f"cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls /proc | grep -c '^[0-9]'; kill -0 {os.getpid()}")
    assert CANARY not in own
    assert "No such process" in own
    assert int(own.split("STDERR")[0].strip().splitlines()[-1]) < 10


async def test_the_system_cannot_be_changed(run: Callable[..., Any]) -> None:
    """Its programs are read-only, and no capability is left to change that."""
    said = await run("touch /usr/bin/evil; touch /etc/evil; mount -o remount,rw /usr; grep CapEff /proc/self/status")
    assert said.count("ead-only file system") >= 2
    assert "CapEff:\t0000000000000000" in said
    assert not Path("/etc/evil").exists()


async def test_the_home_is_empty_and_forgotten(run: Callable[..., Any], places: Path) -> None:
    """Programs that keep something there find a place, and leave nothing."""
    assert await run("echo x > ~/.cache-of-it && cat ~/.cache-of-it") == "x"
    assert not (places / ".cache-of-it").exists()


async def test_without_network_nothing_is_reached(run: Callable[..., Any], places: Path) -> None:
    """Not even the machine's own services."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        said = await run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")
    finally:
        server.close()
    assert "reached" not in said


async def test_what_is_left_in_the_background_ends_with_the_command(run: Callable[..., Any], places: Path) -> None:
    """The description says so to the model."""
    beat = places / "papers" / "beat"
    await run(f"(while true; do date +%N > {beat}; sleep 0.05; done) >/dev/null 2>&1 & sleep 0.3")
    before = beat.read_text()
    await asyncio.sleep(0.3)
    assert beat.read_text() == before


async def test_a_timeout_ends_all_of_it(run: Callable[..., Any], places: Path) -> None:
    """The processes in the sandbox as well."""
    beat = places / "papers" / "beat"
    began = time.monotonic()
    with pytest.raises(ToolFailed, match="timed out after 1 second"):
        await run(f"while true; do date +%N > {beat}; sleep 0.05; done", timeout=1)
    assert time.monotonic() - began < 10
    await asyncio.sleep(0.2)
    before = beat.read_text()
    await asyncio.sleep(0.3)
    assert beat.read_text() == before


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python3 -c 'x = bytearray(10**9)'", "MemoryError"),
        ("head -c 5000000 /dev/zero > big", "File size limit exceeded"),
    ],
)
async def test_a_process_may_use_so_much(run: Callable[..., Any], command: str, said: str) -> None:
    """Memory and files have an end."""
    assert said in await run(command)


async def test_processor_time_has_an_end(places: Path, use: ToolUse) -> None:
    """Also without a sandbox, for what goes on in the background."""
    tool = ExecTool(places / "papers", environment(places), output_limit=1000, limits=ShellLimits(cpu_seconds=1))
    said = await tool.run({"command": "while :; do :; done", "timeout": 30}, use)
    assert said.endswith(("[exit code: 137]", "[exit code: 152]"))


def test_what_a_command_may_use_of_a_machine_without_a_sandbox_is_said(places: Path) -> None:
    """The operator reads why, and the model what happens to background processes."""
    assert sandbox_of(places, mode="off") == Sandbox(why="[tools.exec] sandbox is off")
    bare = ExecTool(places / "papers", environment(places), output_limit=1000)
    assert "end the command with &" in bare.spec.description
    assert "sandbox" not in bare.spec.description


def test_a_machine_without_bubblewrap_has_no_sandbox(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names what is missing."""
    monkeypatch.setenv("PATH", str(places))
    assert sandbox_of(places).why == "bubblewrap (bwrap) is not installed"


def test_a_bubblewrap_that_fails_is_no_sandbox(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel or a container may refuse it."""
    fake = places / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{places}:{os.environ['PATH']}")
    found = sandbox_of(places)
    assert found.words == ()
    assert found.why == "bubblewrap can't be used here: bwrap: No permissions to create new namespace"


def test_the_timeout_of_the_tool_stays_what_it_is(places: Path, sandbox: Sandbox) -> None:
    """Offered to the model as before."""
    tool = ExecTool(
        places / "papers",
        environment(places),
        output_limit=1000,
        default_timeout=timedelta(seconds=7),
        max_timeout=timedelta(seconds=9),
        sandbox=sandbox,
    )
    assert tool.spec.input_schema["properties"]["timeout"]["default"] == 7
    assert "It runs in a sandbox" in tool.spec.description
