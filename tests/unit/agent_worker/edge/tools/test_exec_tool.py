"""Commands: their output, and never a process, a pipe or a secret that outlives or escapes them."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop

from services.agent_worker.edge.tools.exec import ExecTool
from services.agent_worker.edge.tools.shell_process import end_by_polling
from services.agent_worker.ports import ToolFailed, ToolUse

ENVIRONMENT = {"PATH": os.defpath + ":/usr/local/bin", "HOME": "/", "LANG": "C.UTF-8"}
LONG = 60
"""Seconds that no test waits for: whoever sleeps that long has to be killed."""


@pytest.fixture
def run(workspace: Path, use: ToolUse) -> Callable[..., Any]:
    tool = ExecTool(workspace, ENVIRONMENT, output_limit=10_000)

    async def run_command(command: str, **arguments: Any) -> str:
        return await tool.run({"command": command, **arguments}, use)

    return run_command


@pytest.fixture(scope="module", autouse=True)
def _uvloop_has_its_own_descriptors() -> None:
    """It keeps a few for the whole process from its first loop on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.sleep(0))


@pytest.fixture(autouse=True)
def _descriptors_are_returned() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() <= before


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def pids_in(*files: Path) -> list[int]:
    """The process numbers that a command writes to these files as soon as its processes run."""
    async with asyncio.timeout(20):
        while not all(file.exists() and file.read_text().endswith("\n") for file in files):
            await asyncio.sleep(0.02)
    return [int(file.read_text()) for file in files]


async def all_die(pids: list[int]) -> bool:
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return not any(is_running(pid) for pid in pids)


FAMILY = (
    f"echo $$ >a; sleep {LONG} & echo $! >b; (sleep {LONG} & echo $! >c; wait) & "
    f"timeout {LONG} sh -c 'echo $$ >d; sleep {LONG}' & wait"
)
"""A shell, a child, a grandchild, and one in a process group of its own, as ``timeout`` makes it."""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo hello", "hello"),
        ("printf 'a\\nb\\n\\n'", "a\nb"),
        ("echo out; echo err >&2", "out\nSTDERR:\nerr"),
        ("echo out; echo err >&2; exit 3", "out\nSTDERR:\nerr\n[exit code: 3]"),
        ("false", "[exit code: 1]"),
        ("true", "(no output)"),
        ("kill -9 $$", "[exit code: 137]"),
        ("printf 'f\\303\\274r \\360\\237\\246\\211'", "für \N{OWL}"),
        ("printf '\\377'", "\ufffd"),
        ('read -r line; echo "[$line]"', "[]"),
        ("cat", "(no output)"),
    ],
)
async def test_output_errors_and_exit_code_are_told(run: Callable[..., Any], command: str, told: str) -> None:
    """Sections in the words of the original; standard input is empty."""
    assert await run(command) == told


async def test_commands_run_in_the_workspace(run: Callable[..., Any], workspace: Path) -> None:
    """Relative paths mean the same as for the other tools."""
    assert await run("pwd -P") == str(workspace.resolve())


async def test_no_secret_is_in_the_environment(workspace: Path, use: ToolUse) -> None:
    """A canary for each kind of secret; what is harmless stays."""
    secrets = {
        "LUCYD_HTTP_TOKEN": "canary1",
        "ANTHROPIC_API_KEY": "canary2",
        "GITHUB_TOKEN": "canary3",
        "DATABASE_URL": "postgresql://lucy:canary4@db/lucyd",
        "PGPASSWORD": "canary5",
    }
    tool = ExecTool(workspace, {**ENVIRONMENT, **secrets, "EDITOR": "vi"}, output_limit=10_000)
    told = await tool.run({"command": "env; cat /proc/$$/environ | tr '\\0' '\\n'; set"}, use)
    assert "canary" not in told
    assert "EDITOR=vi" in told


async def test_the_environment_is_the_one_given_and_no_other(run: Callable[..., Any]) -> None:
    """Nothing of the worker's own environment slips through."""
    names = {line.partition("=")[0] for line in (await run("env")).split("\n")}
    assert names <= {*ENVIRONMENT, "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"command": ""}, "command is empty"),
        ({"command": " \n"}, "command is empty"),
        ({"command": "echo a\0b"}, "no command can have"),
        ({"command": "echo \ud800"}, "no command can have"),
        ({"command": "echo " + "x" * 3_000_000}, "could not be started"),
        ({"command": "true", "timeout": 0}, "at least 1 second"),
        ({"command": "true", "timeout": -5}, "at least 1 second"),
    ],
)
async def test_what_cannot_be_run_is_told(run: Callable[..., Any], arguments: dict[str, Any], complaint: str) -> None:
    """One clear sentence each."""
    with pytest.raises(ToolFailed, match=complaint):
        await run(**arguments)


async def test_a_missing_workspace_is_told(tmp_path: Path, use: ToolUse) -> None:
    """The volume may be gone."""
    with pytest.raises(ToolFailed, match="could not be started"):
        await ExecTool(tmp_path / "gone", ENVIRONMENT, output_limit=100).run({"command": "true"}, use)


async def test_a_timeout_kills_the_whole_family_and_tells_what_was_said(
    run: Callable[..., Any], workspace: Path
) -> None:
    """Also children, grandchildren, and those that made a process group of their own."""
    with pytest.raises(ToolFailed) as caught:
        await run("echo before; echo hint >&2; " + FAMILY, timeout=2)
    assert str(caught.value) == "Command timed out after 2 seconds\nbefore\nSTDERR:\nhint"
    assert await all_die(await pids_in(*(workspace / name for name in "abcd")))


async def test_cancelling_kills_the_whole_family(run: Callable[..., Any], workspace: Path) -> None:
    """A cancelled run must not go on behind everybody's back."""
    running = asyncio.create_task(run(FAMILY))
    pids = await pids_in(*(workspace / name for name in "abcd"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await all_die(pids)


async def test_cancelling_before_the_command_has_begun_leaves_nothing(run: Callable[..., Any], workspace: Path) -> None:
    """Cancellation may come at any await."""
    for attempt in range(20):
        running = asyncio.create_task(run(f"echo $$ >>pids; sleep {LONG}"))
        for _ in range(attempt % 7):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    begun = workspace / "pids"
    assert await all_die([int(line) for line in begun.read_text().split()] if begun.exists() else [])


async def test_when_the_worker_dies_its_commands_die_too(workspace: Path) -> None:
    """kill -9 of a worker hands its conversations to an heir; a command must not go on beside the heir's."""
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, str(workspace), FAMILY], cwd=Path(__file__).parents[5])
    try:
        pids = await pids_in(*(workspace / name for name in "abcd"))
        assert all(is_running(pid) for pid in pids)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert await all_die(pids)


_WORKER = """
import asyncio, os, sys
from datetime import timedelta
from pathlib import Path
from services.agent_worker.edge.tools.shell_process import run_shell
asyncio.run(run_shell(sys.argv[2], shell="/bin/sh", folder=Path(sys.argv[1]), environment={"PATH": os.defpath},
                      timeout=timedelta(minutes=1), capture=1000))
"""


async def test_a_background_process_does_not_hold_the_result_back(run: Callable[..., Any], workspace: Path) -> None:
    """It keeps the pipe open, and the shell is done."""
    started = time.monotonic()
    told = await run(f"echo started; sleep {LONG} & echo $! >pid", timeout=30)
    assert time.monotonic() - started < 20
    assert told == "started"
    (pid,) = await pids_in(workspace / "pid")
    try:
        await asyncio.sleep(0.2)
        assert is_running(pid), "a process left in the background on purpose lives on"
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_no_watcher_is_left_behind(run: Callable[..., Any]) -> None:
    """A worker runs many commands; each of them ends with everything it brought along."""
    session = int(await run("ps -o sid= -p $$ 2>/dev/null || echo $$"))
    deadline = time.monotonic() + 20
    while members_of(session) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert members_of(session) == []


def members_of(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


async def test_the_end_is_also_noticed_where_the_system_does_not_tell() -> None:
    """Not every system has process descriptors."""
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    assert await end_by_polling(process) == 3


async def test_a_command_finds_its_three_descriptors_and_no_other(run: Callable[..., Any]) -> None:
    """Neither our pipes nor the worker's connections are any of its business."""
    assert await run("for n in $(seq 3 99); do [ -e /proc/$$/fd/$n ] && echo $n; done; true") == "(no output)"


async def test_a_command_finds_no_child_that_it_did_not_start(run: Callable[..., Any]) -> None:
    """Programs that wait until no child is left must not wait for ours."""
    script = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('alone')"
    assert await run(f'exec {sys.executable} -c "{script}"', timeout=10) == "alone"


async def test_a_flood_of_output_costs_a_known_amount_of_memory(run: Callable[..., Any]) -> None:
    """A gigabyte is printed; a few kilobytes are kept, the end among them."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = await run("yes | head -c 1G; echo the end", timeout=100)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    assert len(told) < 50_000
    assert told.startswith("y\ny\n")
    assert told.endswith("y\nthe end")
    assert "bytes cut" in told


async def test_a_flood_leaves_the_event_loop_to_others(run: Callable[..., Any]) -> None:
    """Other conversations live on the same loop."""
    flood = asyncio.create_task(run("yes", timeout=2))
    turns = 0
    while not flood.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(ToolFailed, match="timed out"):
        await flood
    assert turns > 20


async def test_a_timeout_above_the_maximum_is_silently_the_maximum(workspace: Path, use: ToolUse) -> None:
    """Models ask for an hour; the operator decides."""
    tool = ExecTool(workspace, ENVIRONMENT, output_limit=100, max_timeout=timedelta(seconds=1))
    for timeout in ({"timeout": 10**30}, {}):
        with pytest.raises(ToolFailed, match="timed out after 1 seconds"):
            await tool.run({"command": f"sleep {LONG}", **timeout}, use)


def test_the_operators_timeouts_are_told_to_the_model(workspace: Path) -> None:
    """It should know what it may ask for."""
    tool = ExecTool(
        workspace, {}, output_limit=100, default_timeout=timedelta(seconds=7), max_timeout=timedelta(seconds=77)
    )
    told = tool.spec.input_schema["properties"]["timeout"]
    assert told["default"] == 7
    assert "77" in told["description"]
    assert tool.spec.effect == "once"


def test_the_same_holds_on_the_loop_that_workers_use(workspace: Path, use: ToolUse) -> None:
    """uvloop has its own subprocesses and pipes."""

    async def story() -> tuple[str, str]:
        tool = ExecTool(workspace, ENVIRONMENT, output_limit=1000)
        told = await tool.run({"command": "yes | head -c 10M; echo err >&2; exit 4"}, use)
        try:
            await tool.run({"command": FAMILY, "timeout": 2}, use)
        except ToolFailed as error:
            return told, str(error)
        return told, ""

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        told, failure = runner.run(story())
        assert told.endswith("STDERR:\nerr\n[exit code: 4]")
        assert failure == "Command timed out after 2 seconds"
        pids = [int((workspace / name).read_text()) for name in "abcd"]
        assert runner.run(all_die(pids))
