"""Samples told as tables, and the sampler itself."""

import os
import signal
import time
from pathlib import Path

import orjson

from bench.hot_spots import Samples, hot_spots, package_of, packages, stories, tables
from bench.sampler import Sampler

ROOT = Path(__file__).resolve().parents[3]
OURS = str(ROOT / "services/gateway/edge/chat_api.py")
THEIRS = "/somewhere/lib/python3.11/site-packages/psycopg/waiting.py"
SAMPLES = Samples(
    own=[(THEIRS, "wait", 10, 3), (THEIRS, "wait", 20, 3), (OURS, "chat", 5, 2)],
    with_callees=[(THEIRS, "wait", 6), (OURS, "chat", 8)],
)


def test_a_function_is_told_with_its_hottest_line() -> None:
    """Own work and what it calls are different questions."""
    first, second = hot_spots(SAMPLES, 10)
    assert (first.function, first.line, first.own, first.with_callees) == ("wait", 10, 0.75, 0.75)
    assert (second.function, second.own, second.with_callees) == ("chat", 0.25, 1.0)


def test_shares_are_summed_up_by_package_and_our_own_are_told_by_what_they_call() -> None:
    """A flat profile says more by who the work is for."""
    assert packages(SAMPLES, 5) == {"psycopg": 0.75, "services/gateway": 0.25}
    assert stories(SAMPLES, 5) == [("services/gateway/edge/chat_api.py", "chat", 1.0)]
    assert package_of("/usr/lib/python3.11/asyncio/tasks.py") == "asyncio"
    assert package_of("<string>") == "python"
    assert "2.00 ms of CPU" in "\n".join(tables("gateway", SAMPLES, 2.0, most=5))


def test_the_sampler_sees_who_works(tmp_path: Path) -> None:
    """It starts at the signal, and what it leaves is what the tables are made of."""

    def burn() -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass

    before = {number: signal.getsignal(number) for number in (signal.SIGPROF, signal.SIGUSR1)}
    sampler = Sampler()
    try:
        sampler.listen()
        burn()
        assert not sampler.own
        os.kill(os.getpid(), signal.SIGUSR1)
        burn()
        sampler.write(tmp_path / "seen.json")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    samples = Samples(**orjson.loads((tmp_path / "seen.json").read_bytes()))
    spots = {spot.function.rpartition(".")[2]: spot for spot in hot_spots(samples, 5)}
    assert spots["burn"].own > 0.8
