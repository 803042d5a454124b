"""``lucyd schedule``, as a person types it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import lucyd
from tests.fake_gateway import TOKEN, FakeGateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway().in_thread() as serving:
        yield serving


def ask(home: Path, gateway: FakeGateway, *words: str) -> subprocess.CompletedProcess[str]:
    return lucyd(home, "schedule", *words, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN)


def test_what_is_to_come_is_listed_and_with_all_what_is_over(tmp_path: Path, gateway: FakeGateway) -> None:
    """What failed says why, and nobody's text moves the cursor."""
    pending = ask(tmp_path, gateway, "list").stdout.splitlines()
    assert pending[0] == "Scheduled (1)"
    assert pending[-1].split()[0] == "sched-3"
    everything = ask(tmp_path, gateway, "list", "--all")
    assert everything.stdout.splitlines()[0] == "Scheduled (3)"
    assert "no room" in everything.stdout
    assert "\x1b" not in everything.stdout
    (one,) = json.loads(ask(tmp_path, gateway, "list", "--json").stdout)["schedules"]
    assert (one["id"], one["text"]) == ("sched-3", "call mum")


@pytest.mark.parametrize("id", ["sched-3", "3"])
def test_one_is_taken_back_by_its_name_or_number(tmp_path: Path, gateway: FakeGateway, id: str) -> None:
    """As the list shows it, or as people say it."""
    done = ask(tmp_path, gateway, "cancel", id)
    assert (done.returncode, done.stdout) == (0, "Cancelled sched-3.\n")


def test_what_is_over_or_not_there_is_one_sentence(tmp_path: Path, gateway: FakeGateway) -> None:
    """And exit 1."""
    late = ask(tmp_path, gateway, "cancel", "sched-1")
    assert (late.returncode, late.stderr) == (1, "lucyd: The gateway refused it: it has happened already.\n")
    unknown = ask(tmp_path, gateway, "cancel", "../x y")
    assert unknown.returncode == 1
    assert len(unknown.stderr.splitlines()) == 1
