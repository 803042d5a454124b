"""Commands in a sandbox: what they need is there, secrets are not, and nothing outlives them."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from services.agent_worker.edge.tools.exec import ExecTool
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.sandbox import Sandbox, find_sandbox, kept_below, tidy
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


def sandbox_of(
    home: Path,
    *,
    mode: Mode = "auto",
    more: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
    path: str = "",
) -> Sandbox:
    return find_sandbox(
        mode,
        workspace=home / ".lucyd" / "workspace",
        writable=[home / "papers", *more],
        readable=readable,
        hidden=[home / ".lucyd", home / "papers" / ".env", *hidden],
        environment=environment(home, path),
        network=False,
        temporary=home / ".lucyd" / "tmp",
        processes=100,
    )


def environment(home: Path, path: str = "") -> dict[str, str]:
    return {"PATH": f"{path}{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8", "TMP": str(home)}


@pytest.fixture
def sandbox(places: Path) -> Sandbox:
    found = sandbox_of(places)
    if not found.words:
        pytest.skip(f"this machine has no sandbox: {found.why}")
    return found


@pytest.fixture
def bounded(sandbox: Sandbox) -> Sandbox:
    if not sandbox.is_bounded:
        pytest.skip("this machine's bubblewrap is older than 0.8")
    return sandbox


@pytest.fixture
def run(places: Path, sandbox: Sandbox, use: ToolUse) -> Callable[..., Any]:
    return runs_in(sandbox, places, use)


def runs_in(sandbox: Sandbox, home: Path, use: ToolUse, cpu_seconds: int = 30) -> Callable[..., Any]:
    assert sandbox.words, sandbox.why
    tool = ExecTool(
        home / ".lucyd" / "workspace",
        environment(home),
        output_limit=10_000,
        sandbox=sandbox,
        limits=ShellLimits(cpu_seconds=cpu_seconds, memory_bytes=500_000_000, file_bytes=2_000_000),
    )

    async def run_command(command: str, **arguments: Any) -> str:
        return await tool.run({"command": command, **arguments}, use)

    return run_command


@pytest.fixture
def listening() -> Iterator[Path]:
    """A socket in the machine's /tmp, as agents for keys and terminals have theirs."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "agent.1"))
        server.listen()
        yield folder / "agent.1"
    shutil.rmtree(folder)


def calling(path: Path | str) -> str:
    return f"""python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("{path}"); print("rea" + "ched")'"""


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


async def test_the_machines_tmp_is_not_there(
    places: Path, sandbox: Sandbox, listening: Path, run: Callable[..., Any], use: ToolUse
) -> None:
    """Agents for keys, terminals and X keep their sockets in it, and other people their files.

    Also if it is named among the folders that may be written: what lies in it can be named.
    """
    mine = Path(f"/tmp/of-{listening.parent.name}")
    bare = ExecTool(places / "papers", environment(places), output_limit=1000)
    assert await bare.run({"command": calling(listening)}, use) == "reached"
    for each in (run, runs_in(sandbox_of(places, more=[Path("/tmp"), Path("/run")]), places, use)):
        said = await each(f"{calling(listening)}; ls -a /tmp; touch /tmp/{mine.name}; ls /run /dev/shm")
        assert "reached" not in said
        assert listening.parent.name not in said.replace(mine.name, "")
        assert not mine.exists()


async def test_its_own_tmp_is_kept_and_shared_with_the_tools_for_files(run: Callable[..., Any], places: Path) -> None:
    """One writes a script there, the other runs it; and the other way round."""
    kept = places / ".lucyd" / "tmp"
    paths = AllowedPaths([Path("/tmp")], places, hidden=[places / ".lucyd"], temporary=kept)
    paths.resolve("/tmp/ask.sh").write_text("echo answered > /tmp/answer")
    assert await run("sh /tmp/ask.sh; echo $TMPDIR$TMP") == "/tmp"
    assert await run(f"cat /tmp/answer {kept}/answer; ls -A $HOME/.lucyd") == "answered\nanswered\ntmp\nworkspace"
    assert paths.resolve("/tmp/answer").read_text() == "answered\n"
    assert kept.stat().st_mode & 0o777 == 0o700


async def test_it_is_made_anew_when_somebody_has_tidied(run: Callable[..., Any], places: Path) -> None:
    """The next command works again."""
    shutil.rmtree(places / ".lucyd" / "tmp")
    assert await run("echo x > /tmp/x; cat /tmp/x") == "x"


async def test_no_link_in_it_leads_out_of_the_sandbox(run: Callable[..., Any], places: Path, use: ToolUse) -> None:
    """A folder in /tmp that is named later is mounted there, and not where an earlier command had a link lead to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as named, tempfile.TemporaryDirectory(dir="/var/tmp") as outside:
        (Path(named) / "deep").mkdir()
        await run(f"ln -s /oldroot{outside} {named}; ls -l /tmp")
        sandbox = sandbox_of(places, more=[Path(named) / "deep"])
        assert await runs_in(sandbox, places, use)(f"echo x > {named}/deep/x; ls {named}") == "deep"
        assert (Path(named) / "deep" / "x").exists()
        assert list(Path(outside).iterdir()) == []


def test_what_nobody_has_changed_for_long_is_tidied(tmp_path: Path) -> None:
    """Links go and are not followed; what is kept stays, and what is new."""
    (tmp_path / "tmp" / "old" / "deep").mkdir(parents=True)
    (tmp_path / "tmp" / "place").mkdir()
    (tmp_path / "tmp" / "old" / "deep" / "file").write_text("x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("x")
    (tmp_path / "tmp" / "link").symlink_to(tmp_path / "elsewhere")
    tidy(tmp_path / "tmp", before=time.time() - 60)
    assert (tmp_path / "tmp" / "old" / "deep" / "file").exists()
    tidy(tmp_path / "tmp", before=time.time() + 60, keep=[tmp_path / "tmp" / "place"])
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["place"]
    assert (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.usefixtures("sandbox")
async def test_what_is_hidden_stays_so_whatever_is_moved(places: Path, use: ToolUse) -> None:
    """A folder around it that takes another name would show it to the next command."""
    deep = places / "papers" / "project" / "deep"
    deep.mkdir(parents=True)
    (deep / ".env").write_text(CANARY)
    (places / "papers" / "project" / "notes").write_text("")
    sandbox = sandbox_of(places, hidden=[deep / ".env"])
    run = runs_in(sandbox, places, use)
    papers = f"cd {places}/papers"
    for command in (
        f"{papers}; mv project other",
        f"{papers}/project; mv deep other",
        f"{papers}; mv project/deep .; rm -rf project",
        f'{papers}; python3 -c \'import os; os.rename("project", "other")\'',
        f"unshare -rm sh -c '{papers}; umount project/deep/.env; umount -l project; mv project other'",
    ):
        assert CANARY not in await run(f"{command}; true"), command
        said = await run(f"cat $(find {places} -type f -o -type c) </dev/null")
        assert CANARY not in said, command
    assert (deep / ".env").read_text() == CANARY
    assert await run(f"{papers}; echo y > project/deep/y; mv project/deep/y project/z; cat project/z") == "y"


@pytest.mark.usefixtures("sandbox")
async def test_how_lucyd_is_set_up_is_read_and_not_changed(places: Path, use: ToolUse) -> None:
    """What stands in plugins.d is run by every worker, outside of the sandbox."""
    papers = places / "papers"
    (papers / "plugins.d").mkdir()
    (papers / "lucyd.toml").write_text("[agent]\n")
    kept = kept_below([papers], [papers / "lucyd.toml", papers / "plugins.d", places / "elsewhere" / "lucyd.toml"])
    assert kept == [papers / "lucyd.toml", papers / "plugins.d"]
    sandbox = sandbox_of(places, readable=kept)
    if not sandbox.words:
        pytest.skip(f"this machine has no sandbox: {sandbox.why}")
    run = runs_in(sandbox, places, use)
    said = await run(f"cd {papers}; cat lucyd.toml; echo x > plugins.d/x.py; echo x >> lucyd.toml; mv plugins.d p")
    assert "[agent]" in said
    assert (papers / "lucyd.toml").read_text() == "[agent]\n"
    assert list((papers / "plugins.d").iterdir()) == []


async def test_a_linked_home_is_a_home(use: ToolUse) -> None:
    """As /home leads to /var/home on some systems: its ``bin`` in PATH shows itself, and nothing around it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        home = Path(base) / "home" / "ada"
        (Path(base) / "real" / "ada" / ".lucyd" / "workspace").mkdir(parents=True)
        (Path(base) / "home").symlink_to("real")
        (home / "secret").write_text(CANARY)
        (home / "lib").mkdir()
        (home / ".local" / "lib").mkdir(parents=True)
        (home / ".local" / "share").write_text(CANARY)
        for folder in (home / "bin", home / ".local" / "bin"):
            folder.mkdir()
            (folder / f"tool-of-{folder.parent.name}").write_text("#!/bin/sh\necho run\n")
            next(folder.iterdir()).chmod(0o755)
        path = f"{home}/bin:{home}/.local/bin:{home}:{home.parent}:"
        (Path(base) / "letters").mkdir()
        (home / "mail").symlink_to(Path(base) / "letters")
        sandbox = sandbox_of(home, path=path, more=[home / "mail"])
        run = runs_in(sandbox, home, use)
        assert CANARY not in await run(f"cat ~/secret {base}/real/ada/secret ~/.local/share; grep -rs {CANARY} {base}")
        assert await run("~/bin/tool-of-ada; ~/.local/bin/tool-of-.local") == "run\nrun"
        assert await run("echo x > ~/x && cd && cat x && echo dear > mail/to-you") == "x"
        assert (Path(base) / "letters" / "to-you").read_text() == "dear\n"


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(("beside", "is_seen"), [("lib/x", True), ("pyvenv.cfg", True), ("credentials", False)])
async def test_around_the_programs_of_the_path_only_installations_are_seen(
    places: Path, use: ToolUse, beside: str, is_seen: bool
) -> None:
    """A program may need its library; around ``~/.cargo/bin`` lies the key to a registry."""
    tools = places / ".tools"
    (tools / "bin").mkdir(parents=True)
    (tools / beside).parent.mkdir(exist_ok=True)
    (tools / beside).write_text("")
    (tools / "more").write_text(CANARY)
    (tools / "bin" / "tool").write_text("#!/bin/sh\necho run\n")
    (tools / "bin" / "tool").chmod(0o755)
    run = runs_in(sandbox_of(places, path=f"{tools}/bin:"), places, use)
    said = await run(f"{tools}/bin/tool; cat {tools}/more")
    assert said.startswith("run")
    assert (CANARY in said) is is_seen


@pytest.mark.usefixtures("bounded")
async def test_files_that_lie_in_memory_have_an_end(run: Callable[..., Any], places: Path) -> None:
    """The kernel would give each such place half of the machine's memory."""
    said = await run("awk '$3 == \"tmpfs\" && $4 !~ /^ro/ {print $2, $4}' /proc/mounts")
    sizes = dict(re.findall(r"^(\S+) .*\bsize=(\d+)k", said, re.MULTILINE))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    assert sizes.keys() == {"/run", "/dev/shm", str(places)}
    assert 0 < sum(map(int, sizes.values())) <= memory / 4
    refused = await run("for place in / /dev ~/.lucyd; do touch $place/file; done")
    assert refused.count("Read-only file system") == 3
    filled = await run("head -c 1900000 /dev/zero > /run/0; for i in $(seq 9); do cat /run/0 > /run/$i; done")
    assert "No space left" in filled


@pytest.mark.usefixtures("bounded")
async def test_no_command_becomes_root_of_a_sandbox_of_its_own(run: Callable[..., Any]) -> None:
    """In one it would mount memory without end, and reach parts of the kernel that are root's alone."""
    said = await run("unshare -rm sh -c 'mount -t tmpfs -o size=20G x /tmp && df /tmp'; unshare -U echo un''shared")
    assert said.count("unshare failed") == 2
    assert "unshared" not in said


@pytest.mark.parametrize("lacks", ["--size", "--disable-userns"])
async def test_an_old_bubblewrap_does_without_what_it_lacks(
    places: Path, monkeypatch: pytest.MonkeyPatch, bounded: Sandbox, use: ToolUse, lacks: str
) -> None:
    """It knows no sizes, or can't keep others from nesting; all the rest is as safe."""
    real = shutil.which("bwrap")
    old = places / "old" / "bwrap"
    old.parent.mkdir()
    refuses = f'case " $* " in *" {lacks} "*) echo "bwrap: Unknown option {lacks}" >&2; exit 1; esac'
    old.write_text(f'#!/bin/sh\n{refuses}\nexec {real} "$@"\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    found = sandbox_of(places)
    assert bounded.is_bounded
    assert not found.is_bounded
    assert ("--size" in found.words) is (lacks != "--size")
    assert CANARY not in await runs_in(found, places, use)(f"cat {places}/.lucyd/http_token {places}/papers/.env")


async def test_out_of_memory_the_command_dies_and_not_the_worker(
    run: Callable[..., Any], places: Path, use: ToolUse
) -> None:
    """The kernel picks by this number; also without a sandbox."""
    before = Path("/proc/self/oom_score_adj").read_text()
    assert await run("cat /proc/self/oom_score_adj") == "1000"
    bare = ExecTool(places / "papers", environment(places), output_limit=1000)
    assert await bare.run({"command": "cat /proc/self/oom_score_adj"}, use) == "1000"
    assert Path("/proc/self/oom_score_adj").read_text() == before


async def test_processor_time_has_an_end_in_the_sandbox(places: Path, sandbox: Sandbox, use: ToolUse) -> None:
    """The limit goes along through all that stands before the command."""
    run = runs_in(sandbox, places, use, cpu_seconds=1)
    assert (await run("while :; do :; done", timeout=30)).endswith(("[exit code: 137]", "[exit code: 152]"))


@pytest.mark.usefixtures("bounded")
def test_a_command_has_so_many_processes() -> None:
    """A bomb of forks ends at the sandbox's own count, whatever else its user runs. Root alone is not held to it."""
    nobody = 65_534 if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(dir="/var/tmp") as workspace:
        Path(workspace).chmod(0o755)
        found = find_sandbox(
            "auto",
            workspace=Path(workspace),
            writable=[],
            readable=[],
            hidden=[],
            environment={"PATH": "/usr/bin:/bin"},
            network=False,
            processes=100,
        )
        done = subprocess.run(
            [*found.words, "/bin/sh", "-c", "i=0; while [ $i -lt 500 ]; do i=$((i + 1)); echo $i; sleep 30 & done"],
            cwd=workspace,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            timeout=60,
            check=False,
            user=nobody,
            group=nobody,
            extra_groups=None if nobody is None else (),
        )
    assert 50 < int(done.stdout.split()[-1]) <= 100, done.stderr


@pytest.mark.usefixtures("sandbox")
async def test_a_home_that_is_tmp_is_what_the_tools_see(places: Path, use: ToolUse) -> None:
    """In containers it often is."""
    home = {**environment(places), "HOME": "/tmp"}
    own = places / ".lucyd" / "tmp"
    workspace = places / ".lucyd" / "workspace"
    found = find_sandbox(
        "auto",
        workspace=workspace,
        writable=[],
        readable=[],
        hidden=[places / ".lucyd"],
        environment=home,
        network=False,
        temporary=own,
    )
    tool = ExecTool(workspace, home, output_limit=1000, sandbox=found)
    assert await tool.run({"command": "echo x > ~/x; cat /tmp/x"}, use) == "x"
    assert (own / "x").read_text() == "x\n"


async def test_a_tmp_that_is_a_link_is_not_shown_at_its_real_place(
    places: Path, sandbox: Sandbox, use: ToolUse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some keep it on another disk; whoever allows ``/tmp`` allows no socket in it there either."""
    assert sandbox.words
    (places / "disk").mkdir()
    (places / "disk" / "agent.1").write_text(CANARY)
    (places / "link").symlink_to("disk")
    monkeypatch.setattr("services.agent_worker.edge.tools.sandbox.OWN", (places / "link",))
    run = runs_in(sandbox_of(places, more=[places / "link"]), places, use)
    assert CANARY not in await run(f"cat {places}/disk/agent.1 {places}/link/agent.1")
