"""Every service is followed by a new process under load: nobody's message fails, and no attempt is counted."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.rolling import Launched, launched, measure_restarts
from deploy.local.launch import SERVICES
from deploy.local.restart_request import ask_restart
from shared.errors import ConfigError

pytestmark = pytest.mark.alone

RATE = 8.0


@pytest.fixture
def lucyd(tmp_path: Path) -> Iterator[Launched]:
    """Everything under the launcher, with two workers."""
    with launched(tmp_path) as started:
        yield started


async def test_every_service_is_restarted_under_load_and_nothing_is_lost(lucyd: Launched) -> None:
    """A deploy that nobody notices."""
    told = await measure_restarts(lucyd, restarts=len(SERVICES) + 1, rate=RATE, undisturbed=3.0)
    assert told["restart_errors"] == []
    assert told["restarts"] == len(SERVICES) + 1  # two workers
    assert told["reasons"] == []
    assert told["requests"] > RATE
    assert (told["failed"], told["attempts_counted"], told["duplicate_answers"]) == (0, 0, 0)


def test_a_broken_configuration_leaves_what_runs_and_says_why(lucyd: Launched) -> None:
    """Whoever made a mistake in lucyd.toml keeps a Lucyd that answers, and is told what to correct."""
    config = Path(lucyd.folder / "lucyd.toml")
    good = config.read_text("utf-8")
    config.write_text(good.replace('provider = "openai"', 'provider = "nobody"'), "utf-8")
    with pytest.raises(ConfigError, match="nobody") as refused:
        ask_restart(lucyd.data, ["agent_worker"])
    assert "goes on" in str(refused.value)
    asked = _lucyd(lucyd, "restart", "gateway")
    assert asked.returncode == 1
    assert "nobody" in asked.stderr
    config.write_text(good, "utf-8")
    done = _lucyd(lucyd, "restart", "scheduler")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("scheduler restarted in ")


def test_without_a_running_launcher_there_is_one_sentence(tmp_path: Path) -> None:
    """And the same for one that was killed, whose number may be somebody else's by now."""
    (tmp_path / "restart.json").write_text(
        json.dumps({"launcher": 1, "begun": 0, "ended": 0, "lines": [], "errors": []})
    )
    with pytest.raises(ConfigError, match="runs with the data folder"):
        ask_restart(tmp_path)


def _lucyd(lucyd: Launched, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        env=lucyd.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
