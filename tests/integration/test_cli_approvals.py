"""Questions of the agent at the terminal: shown, answered, left, stopped; against a gateway by script."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import in_terminal, lucyd
from tests.fake_gateway import ANSWER, RUN, TOKEN, FakeGateway

PROMPT = "you> "
QUESTION = "May I use 'exec' with command = ls? Answer yes to allow it; anything else means no."


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway().in_thread() as serving:
        yield serving


def settings(gateway: FakeGateway) -> dict[str, str]:
    return {"LUCYD_URL": gateway.url, "LUCYD_HTTP_TOKEN": TOKEN}


def run(home: Path, gateway: FakeGateway, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return lucyd(home, *words, typed=typed, **settings(gateway))


def messages(gateway: FakeGateway) -> list[str]:
    return [body["message"] for body in gateway.bodies("/api/v1/chat/stream")]


def test_the_next_text_is_the_answer_and_the_reply_comes_once(tmp_path: Path, gateway: FakeGateway) -> None:
    """Question, prompt, yes, the tool as it runs, the reply as it is written."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("ask\r")
        assert f"I would list.\r\n? {QUESTION}\r\n" in terminal.read_until(PROMPT)
        terminal.type("yes\r")
        shown = terminal.read_until(PROMPT)
        assert "⚙ exec ls … ok 4 ms" in shown
        assert shown.count("It is done.") == 1
        assert shown.count("$0.0123") == 1
        assert "I would list." not in shown
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert messages(gateway) == ["ask", "yes"]


def test_a_second_question_is_asked_in_its_turn(tmp_path: Path, gateway: FakeGateway) -> None:
    """It comes among the events of the run that asked first, where nobody would look who waits for the answer's end."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("ask-twice\r")
        shown = terminal.read_until(PROMPT)
        assert shown.count("? May I use") == 2
        assert "One answer goes for all 2." in shown
        terminal.type("yes\r")
        shown = terminal.read_until(PROMPT)
        assert "command = rm notes" in shown
        assert "command = ls" not in shown
        terminal.type("yes\r")
        assert "Both are done." in terminal.read_until(PROMPT)


def test_nobody_is_asked_for_an_answer_that_could_not_be_taken_yet(tmp_path: Path, gateway: FakeGateway) -> None:
    """A question is told a moment before it is stored; an answer that overtook it would stand in line behind it."""
    gateway.stored_after = 3
    done = run(tmp_path, gateway, "chat", typed="ask\nyes\n")
    assert (done.returncode, done.stdout.count("It is done.")) == (0, 1)
    assert gateway.stored_after == 0
    assert messages(gateway) == ["ask", "yes"]


def test_a_pipe_that_ends_in_a_question_exits_with_3(tmp_path: Path, gateway: FakeGateway) -> None:
    """A script must tell a question from a reply, and from a fault."""
    done = run(tmp_path, gateway, "chat", typed="ask\n")
    assert done.returncode == 3
    assert QUESTION in done.stdout.splitlines()
    assert "lucyd send yes" in done.stdout
    assert run(tmp_path, gateway, "send", "yes").stdout == "It is done.\n"


def test_send_prints_the_question_and_exits_with_3(tmp_path: Path, gateway: FakeGateway) -> None:
    """Standard output is what the agent says; how to go on stands beside it. The answer is a message like any other."""
    asked = run(tmp_path, gateway, "send", "ask")
    assert (asked.returncode, asked.stdout) == (3, f"{QUESTION}\n")
    assert f"lucyd cancel {RUN}" in asked.stderr
    answered = run(tmp_path, gateway, "send", "yes")
    assert (answered.returncode, answered.stdout) == (0, "It is done.\n")
    assert "$0.0123" in answered.stderr


def test_an_answer_that_leads_to_a_question_exits_with_3_again(tmp_path: Path, gateway: FakeGateway) -> None:
    """Else it would wait for an end that nobody brings about."""
    assert run(tmp_path, gateway, "send", "ask-twice").returncode == 3
    again = run(tmp_path, gateway, "send", "yes")
    assert again.returncode == 3
    assert again.stdout.startswith("May I use 'exec' with command = rm notes?")
    assert run(tmp_path, gateway, "send", "yes").stdout == "Both are done.\n"


def test_json_is_the_whole_question(tmp_path: Path, gateway: FakeGateway) -> None:
    """With the ids that a program decides by."""
    asked = run(tmp_path, gateway, "send", "ask", "--json")
    assert (asked.returncode, asked.stderr) == (3, "")
    told = json.loads(asked.stdout)
    assert (told["state"], told["run_id"], len(told["approvals"])) == ("waiting", RUN, 1)


def test_an_answered_run_that_fails_is_no_success(tmp_path: Path, gateway: FakeGateway) -> None:
    """The answer was taken, and still there is no reply."""
    assert run(tmp_path, gateway, "send", "ask-then-fail").returncode == 3
    failed = run(tmp_path, gateway, "send", "yes")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "The run failed: The model is gone." in failed.stderr


def test_a_question_that_was_not_seen_is_not_answered_by_chance(tmp_path: Path, gateway: FakeGateway) -> None:
    """Ctrl-C, then the run asks: the next text was meant for something else, so the question is shown instead."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("ask-later\r")
        terminal.read_until("I am ")
        assert f"the run goes on: {RUN} (/stop ends it)" in terminal.interrupt(until=PROMPT)
        gateway.ask_now()
        terminal.type("ok\r")
        shown = terminal.read_until(PROMPT)
        assert "Not sent: the run that was left asks something first." in shown
        assert QUESTION in shown
        assert messages(gateway) == ["ask-later"]
        terminal.type("yes\r")
        assert "Asked and answered." in terminal.read_until(PROMPT)


def test_a_question_that_others_answered_is_said_to_be_gone(tmp_path: Path, gateway: FakeGateway) -> None:
    """Then the text is a message of its own, and the person should know."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("ask\r")
        terminal.read_until(PROMPT)
        gateway.answer_elsewhere()
        terminal.type("yes\r")
        shown = terminal.read_until(PROMPT)
        assert "The question was no longer open" in shown
        assert "You said: yes" in shown


def test_stop_ends_the_run_that_was_left(tmp_path: Path, gateway: FakeGateway) -> None:
    """Also when it is no longer shown; twice is no fault, and without any run it says so."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("/stop\r")
        assert "No run of this talk is known" in terminal.read_until(PROMPT)
        terminal.type("slow\r")
        terminal.read_until("I am ")
        terminal.interrupt(until=PROMPT)
        terminal.type("/stop\r")
        assert f"The run {RUN} was cancelled." in terminal.read_until(PROMPT)
        terminal.type("/stop\r")
        assert f"The run {RUN} had ended before: cancelled." in terminal.read_until(PROMPT)


def test_stop_instead_of_an_answer_ends_the_run_that_asks(tmp_path: Path, gateway: FakeGateway) -> None:
    """And nothing waits for an answer any more."""
    with in_terminal(tmp_path, "chat", **settings(gateway)) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("ask\r")
        terminal.read_until(PROMPT)
        terminal.type("/stop\r")
        assert f"The run {RUN} was cancelled." in terminal.read_until(PROMPT)
        terminal.type("hello\r")
        shown = terminal.read_until(PROMPT)
        assert "You said: hello" in shown
        assert "no longer open" not in shown
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_cancel_ends_a_run_by_the_beginning_of_its_id(tmp_path: Path, gateway: FakeGateway) -> None:
    """Whoever reads an id in a log has no conversation open."""
    assert run(tmp_path, gateway, "send", "ask").returncode == 3
    gone = run(tmp_path, gateway, "cancel", RUN[:8])
    assert (gone.returncode, gone.stdout) == (0, f"The run {RUN} was cancelled.\n")
    again = run(tmp_path, gateway, "cancel", RUN)
    assert (again.returncode, again.stdout) == (0, f"The run {RUN} had ended before: cancelled.\n")
    for unknown in ("ffffffff", "01890000-0000-7000-8000-0000000000ff"):
        done = run(tmp_path, gateway, "cancel", unknown)
        assert (done.returncode, done.stderr) == (1, "lucyd: The gateway refused it: no such run.\n")


def test_a_run_that_takes_long_to_end_is_said_to_be_ending(tmp_path: Path, gateway: FakeGateway) -> None:
    """It was asked to end, and has not: a script that needs the end must not go on."""
    assert run(tmp_path, gateway, "send", "ask").returncode == 3
    gateway.ends_at_once = False
    done = run(tmp_path, gateway, "cancel", RUN)
    assert done.returncode == 1
    assert done.stderr == f"lucyd: The run {RUN} was told to end and is still ending; `lucyd why {RUN}` tells.\n"
    assert run(tmp_path, gateway, "cancel", ANSWER).returncode == 1


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_what_to_do_when_the_conversation_is_busy(tmp_path: Path, gateway: FakeGateway, flags: tuple[str, ...]) -> None:
    """The wish goes along; to be refused is one sentence."""
    assert run(tmp_path, gateway, "send", "hi", "--when-busy", "steer", *flags).returncode == 0
    sent = gateway.bodies("/api/v1/chat/stream") + gateway.bodies("/api/v1/chat")
    assert sent[0] == {"message": "hi", "source": "cli", "when_busy": "steer"}
    assert run(tmp_path, gateway, "send", "hi", "--when-busy", "never", *flags).returncode == 2
    gateway.refuse = (409, {"error": "the conversation is busy"}, {})
    done = run(tmp_path, gateway, "send", "hi", "--when-busy", "reject", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "lucyd: The conversation is busy with an earlier message; this one was not taken.\n"
