"""A person allows, denies and stops what the agent wants to do: the commands, a gateway and a worker, all real."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import in_terminal, lucyd
from tests.scripted_model_server import Hang, Say, Script, ScriptedModelServer, Use
from tests.stack import TOKEN, Stack, model_toml, open_stack

PROMPT = "you> "
TOOLS = '\n[tools]\nask_first = ["exec"]\n'


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    scripts: dict[str, Script] = {
        "twice": [
            Use([("exec", {"command": "echo one >> acts"})], text="First one thing."),
            Use([("exec", {"command": "echo two >> acts"})], text="Then another."),
            Say("Both are done."),
        ],
        "slow": [Use([("read", {"file_path": "gone.txt"})], text="Let me look."), Hang(20), Say("Too late.")],
    }
    with ScriptedModelServer(scripts).in_thread() as models:
        toml = model_toml("anthropic", models.base_url("anthropic"), extra=TOOLS)
        with open_stack(tmp_path / "stack", database_url, redis_url, toml) as opened:
            yield opened


def acts(stack: Stack) -> list[str]:
    file = stack.workspace / "acts"
    return file.read_text().split() if file.exists() else []


def test_a_talk_with_two_questions(stack: Stack, tmp_path: Path) -> None:
    """Each is asked before it is done; the reply comes once; nobody is told of another worker, since there is none."""
    gateway, _ = stack.gateway(), stack.workers()
    with in_terminal(tmp_path, "chat", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("[[script:twice]]\r")
        shown = terminal.read_until(PROMPT)
        assert "First one thing." in shown
        assert "? May I use 'exec' with command = echo one >> acts" in shown
        assert acts(stack) == []
        terminal.type("yes\r")
        shown = terminal.read_until(PROMPT)
        assert re.search(r"⚙ exec echo one >> acts … ok", shown)
        assert "? May I use 'exec' with command = echo two >> acts" in shown
        assert "↺" not in shown
        assert acts(stack) == ["one"]
        terminal.type("better not\r")
        shown = terminal.read_until(PROMPT)
        assert shown.count("Both are done.") == 1
        assert "3 turns" in shown
        assert acts(stack) == ["one"]
        terminal.type("and now?\r")
        assert "and now?" in terminal.read_until("tokens in")
        terminal.read_until(PROMPT)
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_one_command_for_each_step(stack: Stack, tmp_path: Path) -> None:
    """Exit 3 with a question, exit 0 with the reply; the end of a run that asks is one command away."""
    gateway, _ = stack.gateway(), stack.workers()

    def run(*words: str, typed: str = "") -> tuple[int, str, str]:
        done = lucyd(tmp_path, *words, typed=typed, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN)
        return done.returncode, done.stdout, done.stderr

    code, said, _ = run("send", "[[script:twice]]")
    assert code == 3
    assert said.startswith("May I use 'exec' with command = echo one >> acts")
    code, said, _ = run("send", "yes")
    assert code == 3
    assert said.startswith("May I use 'exec' with command = echo two >> acts")
    assert run("send", "yes")[:2] == (0, "Both are done.\n")
    assert acts(stack) == ["one", "two"]
    assert run("chat", typed="[[script:twice]]\nyes\nyes\n")[0] == 0
    assert acts(stack) == ["one", "two", "one", "two"]

    code, _, beside = run("send", "[[script:twice]]", "--json", "--sender", "Ada")
    assert (code, beside) == (3, "")
    assert run("send", "hi", "--sender", "Ada", "--when-busy", "reject")[0] == 1
    code, _, beside = run("send", "no", "--sender", "Ada")
    asked = re.search(r"lucyd cancel ([0-9a-f-]+)", beside)
    assert code == 3
    assert asked is not None
    code, said, _ = run("cancel", asked[1])
    assert code == 0
    assert re.fullmatch(rf"The run [0-9a-f-]+ was cancelled, and {asked[1]}, which was a part of it\.\n", said)
    assert "had ended before: cancelled" in run("cancel", asked[1])[1]
    assert run("send", "still there?", "--sender", "Ada")[0] == 0
    assert run("cancel", "ffffffff") == (1, "", "lucyd: The gateway refused it: no such run.\n")


def test_stop_ends_what_is_no_longer_shown(stack: Stack, tmp_path: Path) -> None:
    """In the middle of the model's answer, without waiting for it."""
    gateway, _ = stack.gateway(), stack.workers()
    with in_terminal(tmp_path, "chat", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("[[script:slow]]\r")
        terminal.read_until("⚙ read")
        terminal.interrupt(until=PROMPT)
        terminal.type("/stop\r")
        assert "was cancelled." in terminal.read_until(PROMPT)
        terminal.type("hello\r")
        assert "hello" in terminal.read_until("tokens in")
