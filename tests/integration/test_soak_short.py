"""The soak itself, for a moment: that all it does is right, and that everything is looked at."""

import subprocess
import sys
from pathlib import Path

import orjson

PROJECT = Path(__file__).resolve().parents[2]
SEEN = {
    *(f"{what}.{who}" for what in ("rss", "handles", "threads") for who in ("gateway", "agent_worker-2", "scheduler")),
    *("connections.lucyd gateway", "private.postgres", "table.runs", "dead.share", "disk.wal"),
    *("redis.used_memory", "keys.lucyd:run:*:events", "stream.lucyd:control", "log.agent_worker"),
}


def test_a_short_soak_has_every_reply_right_and_sees_everything(tmp_path: Path) -> None:
    """Streams that are left, cancels, resets, faults of the provider and all, at once; nobody is told nonsense."""
    words = [sys.executable, "-m", "bench.soak", "--minutes", "0.35", "--every", "1", "--rate", "12"]
    done = subprocess.run(
        [*words, "--out", str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    told = orjson.loads((tmp_path / "soak.json").read_bytes())
    assert told["wrong"] == 0
    assert told["runs"] > 50
    assert told["webhooks_received"] > 20
    assert set(told["samples"]) >= SEEN
    assert told["grows"] == []
