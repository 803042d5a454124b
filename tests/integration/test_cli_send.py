"""`lucyd send` against a gateway by script: what goes where, what a broken connection costs, how faults are told."""

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.edge.address import Address
from cli.edge.gateway_client import Patience, connect
from cli.rules.failure import Failure
from cli.rules.follower import Follower
from tests.command_line import environment_of, in_terminal, lucyd
from tests.fake_gateway import RUN, TOKEN, FakeGateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway().in_thread() as serving:
        yield serving


def send(home: Path, gateway: FakeGateway, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return lucyd(home, "send", *words, typed=typed, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN)


def test_a_pipe_gets_the_reply_and_nothing_else(tmp_path: Path, gateway: FakeGateway) -> None:
    """`reply=$(lucyd send ...)` is how scripts use it; the bill goes to standard error."""
    done = send(tmp_path, gateway, "hello", "--sender", "Ada", "--tier", "minimal", "--context", "at night")
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert done.stderr.startswith("$0.0123 · 1,120 tokens in (1,000 cached), 8 out · fake-model-1 · ")
    body = {"message": "hello", "source": "cli", "sender": "Ada", "tier": "minimal", "context": "at night"}
    assert gateway.bodies("/api/v1/chat/stream") == [body]


def test_a_dash_reads_the_message_from_standard_input(tmp_path: Path, gateway: FakeGateway) -> None:
    """Messages of many lines come from files."""
    assert send(tmp_path, gateway, "-", typed="two\nlines\n").returncode == 0
    assert gateway.bodies("/api/v1/chat/stream")[0]["message"] == "two\nlines\n"
    empty = send(tmp_path, gateway, "-", typed=" \n")
    assert (empty.returncode, empty.stderr) == (1, "lucyd: The message is empty.\n")


def test_a_second_attempt_leaves_no_draft_in_a_pipe(tmp_path: Path, gateway: FakeGateway) -> None:
    """A script must never act on text that was taken back."""
    done = send(tmp_path, gateway, "second-attempt")
    assert (done.returncode, done.stdout) == (0, "second draft\n")
    assert "attempt 2" in done.stderr


def test_a_terminal_sees_the_draft_and_that_it_is_void(tmp_path: Path, gateway: FakeGateway) -> None:
    """A person reads along, and is told what no longer counts."""
    with in_terminal(tmp_path, "send", "second-attempt", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN) as terminal:
        shown = terminal.read_until("$0.0123")
        assert terminal.wait() == 0
    assert shown.index("first draft") < shown.index("void") < shown.index("second draft")


def test_a_broken_stream_is_taken_up_where_it_broke(tmp_path: Path, gateway: FakeGateway) -> None:
    """Once torn off, once ended too early: no piece is missing, none comes twice, and the message is sent once."""
    with in_terminal(tmp_path, "send", "break", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN) as terminal:
        shown = terminal.read_until("$0.0123")
        assert terminal.wait() == 0
    assert "one two three" in shown
    assert len(gateway.bodies("/api/v1/chat/stream")) == 1
    resumed = [headers["last-event-id"] for _, path, headers, _ in gateway.asked if path.endswith("/events")]
    assert resumed == ["1-4", "1-8"]


def test_a_connection_that_broke_before_the_answer_sends_under_the_same_key(
    tmp_path: Path, gateway: FakeGateway
) -> None:
    """Nobody knows whether the message arrived; the key makes the second sending harmless."""
    done = send(tmp_path, gateway, "break-early")
    assert (done.returncode, done.stdout) == (0, "You said: break-early\n")
    keys = [headers["idempotency-key"] for _, path, headers, _ in gateway.asked if path.endswith("/stream")]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_silent_connection_counts_as_broken(gateway: FakeGateway, tmp_path: Path) -> None:
    """A dead network sends nothing, not even an end."""
    patience = Patience(silence=0.3, first_pause=0.01)
    with connect(Address(gateway.url, TOKEN, tmp_path), patience) as client:
        events = list(client.stream({"message": "hush"}, Follower()))
    assert events[-1].data["reply"] == "back again"
    assert any(path.endswith("/events") for _, path, _, _ in gateway.asked)


def test_a_gateway_that_stays_away_is_given_up_with_the_runs_id(gateway: FakeGateway, tmp_path: Path) -> None:
    """Five times, and then the person gets the id, not a prompt that hangs."""
    patience = Patience(silence=0.1, first_pause=0.01)
    with connect(Address(gateway.url, TOKEN, tmp_path), patience) as client:
        with pytest.raises(Failure, match=f"the run {RUN} goes on"):
            list(client.stream({"message": "slow"}, Follower()))
        assert sum(path.endswith("/events") for _, path, _, _ in gateway.asked) == patience.resumes


def test_a_failed_run_is_told_and_is_no_success(tmp_path: Path, gateway: FakeGateway) -> None:
    """Scripts look at the exit code."""
    done = send(tmp_path, gateway, "fail")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The run failed: The model rejected the request: context too long." in done.stderr


def test_json_is_the_gateways_answer(tmp_path: Path, gateway: FakeGateway) -> None:
    """For programs: every field, also of a failure."""
    done = send(tmp_path, gateway, "hello", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["reply"] == "You said: hello"
    bad = send(tmp_path, gateway, "fail", "--json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["run_id"] == RUN
    assert len(bad.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ((400, {"error": "unknown tier"}, {}), "unknown tier"),
        ((503, {"error": "the queue is full"}, {"Retry-After": "7"}), "the queue is full; try again in 7 s"),
        ((408, {"error": "processing timeout", "run_id": RUN}, {}), RUN),
        ((429, {"error": "rate limit exceeded"}, {}), "asked too often"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_refusal_is_one_sentence(
    tmp_path: Path, gateway: FakeGateway, refusal: Any, words: str, flags: tuple[str, ...]
) -> None:
    """The gateway knows why; the person should too."""
    gateway.refuse = refusal
    done = send(tmp_path, gateway, "hello", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_token_is_told_and_never_shown(tmp_path: Path, gateway: FakeGateway) -> None:
    """It may be right for another gateway."""
    done = lucyd(tmp_path, "send", "hi", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN="wrong-but-secret")
    assert done.returncode == 1
    assert "LUCYD_HTTP_TOKEN" in done.stderr
    assert "wrong-but-secret" not in done.stderr


def test_without_a_gateway_one_sentence_says_where_and_how_to_start_it(tmp_path: Path) -> None:
    """The most frequent mistake of all."""
    for words in (["send", "hi"], ["sessions"], ["cost"], ["chat"], ["send", "hi", "--json"]):
        done = lucyd(tmp_path, *words, "--url", "http://127.0.0.1:9", typed="hi\n")
        assert done.returncode == 1
        told = done.stderr or done.stdout
        assert len(told.splitlines()) == 1
        assert all(each in told for each in ("http://127.0.0.1:9", "make run", "lucyd up"))


def test_another_program_on_the_port_is_recognised(tmp_path: Path) -> None:
    """Port 8100 belongs to nobody in particular."""

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Content-Length"):
                self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>It works!</h1>")

        do_POST = do_GET  # noqa: N815 - the server looks for this name

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            for words in (["send", "hi"], ["send", "hi", "--json"], ["sessions"]):
                done = lucyd(tmp_path, *words, "--url", url, LUCYD_HTTP_TOKEN=TOKEN)
                assert (done.returncode, done.stdout) == (1, "")
                assert "not Lucyd's gateway" in done.stderr
        finally:
            server.shutdown()
            thread.join()


def test_a_token_in_the_data_directory_is_found(tmp_path: Path, gateway: FakeGateway) -> None:
    """As the launcher leaves it; nothing has to be set on one's own machine."""
    data = tmp_path / ".lucyd"
    data.mkdir()
    (data / "http_token").write_text(f"{TOKEN}\n")
    (data / "launcher.json").write_text(json.dumps({"http": gateway.url}))
    done = lucyd(tmp_path, "send", "hello")
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(tmp_path: Path, gateway: FakeGateway) -> None:
    """The proxy could not reach 127.0.0.1 here, and would see the token."""
    done = lucyd(
        tmp_path, "send", "hello", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN,
        HTTP_PROXY="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9", ALL_PROXY="http://127.0.0.1:9",
    )  # fmt: skip
    assert done.returncode == 0


def _spent_by_children() -> float:
    """Seconds of the processor, which say the same beside other work."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def test_help_comes_at_once_and_loads_nothing_slow(tmp_path: Path) -> None:
    """A command that takes a second to say what it can do feels broken."""
    code = "import sys, cli.__main__; print({'httpx2','psycopg','redis','rich','tomllib','asyncio'} & set(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        env=environment_of(tmp_path), capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    assert loaded.stdout == "set()\n"
    took = []
    for _ in range(5):
        began = _spent_by_children()
        done = lucyd(tmp_path, "--help")
        took.append(_spent_by_children() - began)
        assert done.returncode == 0
    assert min(took) < 0.4
    assert all(f"\n  {name} " in done.stdout for name in ("up", "chat", "send", "doctor", "migrate"))


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path, gateway: FakeGateway) -> None:
    """`lucyd history | head -1` is no fault."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "sessions"],
        env=environment_of(tmp_path, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN), cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(20) != 0
    assert told == ""


def bytes_of(home: Path, gateway: FakeGateway, *words: str | bytes, typed: bytes = b"", program: str = "cli") -> Any:
    """As `lucyd`, with bytes that are no text."""
    return subprocess.run(
        [sys.executable, "-m", program, *words],
        env=environment_of(home, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN), cwd=home, input=typed,
        capture_output=True, timeout=20, check=False,
    )  # fmt: skip


def test_bytes_that_are_no_text_are_one_sentence(tmp_path: Path, gateway: FakeGateway) -> None:
    """A file in another encoding, a pasted half character: never a traceback, and nothing is sent."""
    half = b"\xed\xa0\x80"
    for done in (
        bytes_of(tmp_path, gateway, "send", "-", typed=b"a\xff"),
        bytes_of(tmp_path, gateway, "send", half),
        bytes_of(tmp_path, gateway, "send", "hi", "--json", "--sender", half),
        bytes_of(tmp_path, gateway, "send", "hi", "--context", half),
        bytes_of(tmp_path, gateway, "chat", typed=b"a\xff\n"),
        bytes_of(tmp_path, gateway, "history", half),
        bytes_of(tmp_path, gateway, "-m", half, program="cli.lucyd_send"),
        bytes_of(tmp_path, gateway, "-m", "hi", "--from", half, program="cli.lucyd_send"),
    ):
        told = done.stderr.decode() or done.stdout.decode()
        assert done.returncode == 1, told
        assert "not UTF-8 text" in told
        assert len(told.splitlines()) == 1, told
    assert gateway.bodies("/api/v1/chat/stream") + gateway.bodies("/api/v1/chat") == []


def test_a_pipe_alone_is_the_message(tmp_path: Path, gateway: FakeGateway) -> None:
    """`echo hi | lucyd send` means what it says; at a terminal a forgotten message is asked for."""
    assert send(tmp_path, gateway, typed="hi\n").returncode == 0
    assert gateway.bodies("/api/v1/chat/stream")[0]["message"] == "hi\n"
    with in_terminal(tmp_path, "send", LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN) as terminal:
        terminal.read_until("TEXT|-")
        assert terminal.wait() == 2


def test_a_failure_for_which_nothing_was_bought_has_no_bill(tmp_path: Path, gateway: FakeGateway) -> None:
    """One line, the reason."""
    done = send(tmp_path, gateway, "fail")
    assert done.stderr == "The run failed: The model rejected the request: context too long.\n"
