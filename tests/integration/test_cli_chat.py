"""`lucyd chat` in a terminal, with a person at the keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import in_terminal, lucyd
from tests.fake_gateway import RUN, SESSION, TOKEN, FakeGateway

PROMPT = "you> "


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway().in_thread() as serving:
        yield serving


def settings(gateway: FakeGateway) -> dict[str, str]:
    return {"LUCYD_URL": gateway.url, "LUCYD_HTTP_TOKEN": TOKEN}


def test_a_talk_from_greeting_to_ctrl_d(tmp_path: Path, gateway: FakeGateway) -> None:
    """Reply, tools and bill as they come; what was typed is remembered for its owner alone."""
    (tmp_path / ".lucyd").mkdir()
    with in_terminal(tmp_path, "chat", "--sender", "Ada", **settings(gateway)) as terminal:
        assert "fake-model-1" in terminal.read_until(PROMPT)
        terminal.type("hello\r")
        shown = terminal.read_until(PROMPT)
        assert "You said: hello" in shown
        assert "$0.0123 · 1,120 tokens in (1,000 cached), 8 out · fake-model-1" in shown
        terminal.type("tools\r")
        shown = terminal.read_until(PROMPT)
        assert "⚙ read MEMORY.md … ok 12 ms" in shown
        assert "The context is 80 % full." in shown
        assert "Let me see." not in shown
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert gateway.bodies("/api/v1/chat/stream")[0] == {"message": "hello", "source": "cli", "sender": "Ada"}
    history = tmp_path / ".lucyd" / "chat_history"
    assert "hello" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_stops_showing_and_says_that_the_run_goes_on(tmp_path: Path, gateway: FakeGateway) -> None:
    """The agent may be in the middle of an act; the person gets the prompt back, and the id."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("slow\r")
        terminal.read_until("I am ")
        assert f"the run goes on: {RUN}" in terminal.interrupt(until=PROMPT)
        terminal.type("half a line")
        terminal.read_until("half a line")
        terminal.interrupt(until=PROMPT)
        terminal.type("/quit\r")
        assert terminal.wait() == 0


def test_slash_commands(tmp_path: Path, gateway: FakeGateway) -> None:
    """Everyday questions without leaving the talk; a slip is told, not sent to the agent."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        for typed, expected in (
            ("/help", "/sessions"),
            ("/cost all", "$1.5000"),
            ("/sessions", SESSION),
            ("/reset", "The session was reset"),
            ("/rest", "There is no command /rest"),
            ("/cost never", "The period must be one of"),
        ):
            terminal.type(f"{typed}\r")
            assert expected in terminal.read_until(PROMPT)
        terminal.type("\x04")
        terminal.wait()
    assert gateway.bodies("/api/v1/chat/stream") == []
    assert gateway.bodies("/api/v1/sessions/reset") == [{"target": SESSION}]


def test_thoughts_are_shown_when_asked_for(tmp_path: Path, gateway: FakeGateway) -> None:
    """Whoever tunes a prompt wants to see them."""
    with in_terminal(tmp_path, "chat", "--thinking", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("tools\r")
        assert "Let me see." in terminal.read_until(PROMPT)


def test_a_fault_does_not_end_the_talk(tmp_path: Path, gateway: FakeGateway) -> None:
    """A full queue is over in a minute; what was said before should still be on the screen."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        gateway.refuse = (503, {"error": "the queue is full"}, {"Retry-After": "7"})
        terminal.type("hello\r")
        assert "the queue is full; try again in 7 s" in terminal.read_until(PROMPT)
        gateway.refuse = None
        terminal.type("hello\r")
        assert "You said: hello" in terminal.read_until(PROMPT)


def test_the_agent_can_not_write_into_the_terminal(tmp_path: Path, gateway: FakeGateway) -> None:
    """An escape sequence in a reply could fill the clipboard or hide what was said."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("escape\r")
        terminal.read_until("$0.0123")
        assert "\x1b]52" not in terminal.raw
        assert "\x1b[2J" not in terminal.raw
        assert "]52;c;" in terminal.raw


def test_without_a_terminal_it_is_plain(tmp_path: Path, gateway: FakeGateway) -> None:
    """Lines in, replies out: no prompt, no styles, no draft."""
    done = lucyd(tmp_path, "chat", typed="hello\n\nsecond-attempt\n", **settings(gateway))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "You said: hello"
    assert "second draft" in lines
    assert not any("first" in line or "\x1b" in line or PROMPT in line for line in lines)
    assert lucyd(tmp_path, "chat", typed="fail\n", **settings(gateway)).returncode == 1
