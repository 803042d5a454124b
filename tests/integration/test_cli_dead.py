"""``lucyd dead`` and ``lucyd why``, as a person types them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import lucyd
from tests.fake_gateway import DEAD_RUN, DEAD_WEBHOOK, RUN, TOKEN, FakeGateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway().in_thread() as serving:
        yield serving


def ask(home: Path, gateway: FakeGateway, *words: str) -> subprocess.CompletedProcess[str]:
    return lucyd(home, *words, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN)


def test_what_was_given_up_is_listed_shown_and_decided(tmp_path: Path, gateway: FakeGateway) -> None:
    """The four orders, one after the other."""
    listed = ask(tmp_path, gateway, "dead", "list")
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[0] == "Given up (2)"
    assert len(json.loads(ask(tmp_path, gateway, "dead", "list", "--json").stdout)["dead"]) == 2
    assert "Last step:    2\n" in ask(tmp_path, gateway, "dead", "show", DEAD_RUN).stdout
    assert json.loads(ask(tmp_path, gateway, "dead", "show", DEAD_RUN, "--json").stdout)["id"] == DEAD_RUN
    again = ask(tmp_path, gateway, "dead", "retry", DEAD_RUN)
    assert again.stdout == f"The message is tried again as run {RUN}.\n"
    assert ask(tmp_path, gateway, "dead", "retry", DEAD_WEBHOOK).stdout == "The webhook goes out again now.\n"
    assert ask(tmp_path, gateway, "dead", "drop", DEAD_WEBHOOK).stdout == f"Dropped: webhook {DEAD_WEBHOOK}.\n"


@pytest.mark.parametrize("order", ["show", "retry", "drop"])
def test_an_id_that_nobody_knows_is_one_sentence(tmp_path: Path, gateway: FakeGateway, order: str) -> None:
    """And exit 1."""
    done = ask(tmp_path, gateway, "dead", order, "nonsense/../x")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    done = ask(tmp_path, gateway, "dead", order, RUN)
    assert done.stderr == "lucyd: The gateway refused it: nothing that was given up has this id.\n"


def test_why_tells_the_story_of_a_run(tmp_path: Path, gateway: FakeGateway) -> None:
    """By its id, or by the beginning of it."""
    for name in (RUN, RUN[:8]):
        done = ask(tmp_path, gateway, "why", name)
        assert done.returncode == 0
        assert done.stdout.startswith(f"Run {RUN}: done after 12.0 s\n")
    story = json.loads(ask(tmp_path, gateway, "why", RUN, "--json").stdout)
    assert story["costs"][0]["cost"] == 0.0042
    unknown = ask(tmp_path, gateway, "why", "ffffffff")
    assert (unknown.returncode, unknown.stderr) == (1, "lucyd: The gateway refused it: no such run.\n")
