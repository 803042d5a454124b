"""The commands that ask, and lucyd-send with the flags of the original."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import in_terminal, lucyd
from tests.fake_gateway import OTHER_SESSION, SESSION, TOKEN, FakeGateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway().in_thread() as serving:
        yield serving


def ask(home: Path, gateway: FakeGateway, *words: str, program: str = "cli") -> subprocess.CompletedProcess[str]:
    return lucyd(home, *words, program=program, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN)


@pytest.mark.parametrize(("program", "words"), [("cli", ["sessions"]), ("cli.lucyd_send", ["--sessions"])])
def test_sessions_are_listed(tmp_path: Path, gateway: FakeGateway, program: str, words: list[str]) -> None:
    """Columns as scripts of the original's users expect them, in both commands."""
    done = ask(tmp_path, gateway, *words, program=program)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Active Sessions (2)"
    assert lines[2].split() == ["Contact", "Session", "ID", "Context", "Msgs", "Cmp", "Cost", "Logs", "Since"]
    assert [line.split()[1] for line in lines[4:6]] == [SESSION, OTHER_SESSION]


@pytest.mark.parametrize(("program", "words"), [("cli", ["cost", "all"]), ("cli.lucyd_send", ["--cost", "all"])])
def test_cost_is_listed(tmp_path: Path, gateway: FakeGateway, program: str, words: list[str]) -> None:
    """As above."""
    done = ask(tmp_path, gateway, *words, program=program)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["Model", "Input", "Output", "Cache", "Cost"]
    assert lines[-1] == ["Total", "$1.5000"]


def test_a_period_without_cost_and_one_that_is_none(tmp_path: Path, gateway: FakeGateway) -> None:
    """The sentence of the original; and a slip is told before the gateway is asked."""
    assert ask(tmp_path, gateway, "cost", "week").stdout == "No cost data for this period.\n"
    bad = ask(tmp_path, gateway, "cost", "yesterday")
    assert bad.returncode == 1
    assert "today, week, all" in bad.stderr


def test_history_is_of_this_terminal_unless_another_session_is_named(tmp_path: Path, gateway: FakeGateway) -> None:
    """What was said here is what one mostly looks for."""
    done = ask(tmp_path, gateway, "history")
    assert done.returncode == 0
    assert f"ID: {SESSION}" in done.stdout
    assert "  Hi there." in done.stdout
    assert "a note" in ask(tmp_path, gateway, "history", "CLI", "--full").stdout
    assert "Hi there." in ask(tmp_path, gateway, "--history", "cli", program="cli.lucyd_send").stdout
    missing = ask(tmp_path, gateway, "history", "nobody")
    assert (missing.returncode, missing.stderr) == (1, "lucyd: No session found for: nobody\n")


@pytest.mark.parametrize(("program", "words"), [("cli", ["monitor"]), ("cli.lucyd_send", ["--monitor"])])
def test_the_monitor_is_shown(tmp_path: Path, gateway: FakeGateway, program: str, words: list[str]) -> None:
    """State, contact, processes."""
    done = ask(tmp_path, gateway, *words, program=program)
    assert done.returncode == 0
    assert done.stdout.startswith("Lucyd — thinking (turn 2)\n")
    assert "47.7M" in done.stdout


def test_watching_goes_on_until_ctrl_c(tmp_path: Path, gateway: FakeGateway) -> None:
    """Ending a watch is no fault."""
    with in_terminal(tmp_path, "monitor", "--watch", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN) as terminal:
        terminal.read_until("47.7M")
        terminal.read_until("47.7M")
        terminal.type("\x03")
        assert terminal.wait() == 0


def test_reset_ends_this_terminals_session_unless_another_is_named(tmp_path: Path, gateway: FakeGateway) -> None:
    """A bare `reset` must not end the sessions of other people."""
    assert ask(tmp_path, gateway, "reset").returncode == 0
    assert ask(tmp_path, gateway, "reset", "Claudio").stdout == "Reset sent for sender: Claudio\n"
    assert ask(tmp_path, gateway, "reset", OTHER_SESSION).stdout == f"Reset sent for session: {OTHER_SESSION}\n"
    targets = [body["target"] for body in gateway.bodies("/api/v1/sessions/reset")]
    assert targets == [SESSION, "Claudio", OTHER_SESSION]
    nobody = ask(tmp_path, gateway, "reset", "nobody")
    assert (nobody.returncode, nobody.stderr) == (1, "lucyd: Nothing was reset: no session of nobody.\n")


def test_lucyd_send_resets_all_without_a_target(tmp_path: Path, gateway: FakeGateway) -> None:
    """As the original does."""
    done = ask(tmp_path, gateway, "--reset", program="cli.lucyd_send")
    assert done.stdout == "Reset sent for all sessions (2).\n"
    assert gateway.bodies("/api/v1/sessions/reset") == [{"target": "all"}]


def test_lucyd_send_hands_a_message_over_and_does_not_wait(tmp_path: Path, gateway: FakeGateway) -> None:
    """Cron jobs of the original rely on it: it returns once the message is safe, not once it is answered."""
    done = ask(tmp_path, gateway, "-m", "slow", "--from", "Ada", "--tier", "minimal", program="cli.lucyd_send")
    assert (done.returncode, done.stdout) == (0, "Message sent.\n")
    body = {"message": "slow", "source": "cli", "sender": "Ada", "tier": "minimal"}
    assert gateway.bodies("/api/v1/chat/stream") == [body]


@pytest.mark.parametrize("words", [["-s", "event"], ["-m", "x", "-a", "file"], ["-n", "note"]])
def test_what_comes_later_is_said_to_come_later(tmp_path: Path, gateway: FakeGateway, words: list[str]) -> None:
    """A flag that silently did nothing would be worse than none."""
    done = ask(tmp_path, gateway, *words, program="cli.lucyd_send")
    assert done.returncode == 1
    assert "is not there yet" in done.stderr
    assert gateway.asked == []


def test_lucyd_send_without_flags_shows_its_help(tmp_path: Path) -> None:
    """And names nothing that does not work."""
    done = lucyd(tmp_path, program="cli.lucyd_send")
    assert done.returncode == 1
    assert "--cost" in done.stdout
    assert "--system" not in done.stdout
