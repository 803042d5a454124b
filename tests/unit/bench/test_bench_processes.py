"""CPU and memory as the kernel counts them."""

import os
import subprocess
import sys

from bench.processes import cpu_seconds, cpu_seconds_of_tree, parent_of, resident_bytes, used_between

BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"


def test_the_cpu_of_a_process_and_of_what_it_started_is_counted() -> None:
    """Postgres does its work in children, some of which have ended when we look."""
    assert abs(cpu_seconds(os.getpid()) - sum(os.times()[:4])) < 5
    own, before = cpu_seconds(os.getpid()), cpu_seconds_of_tree(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    assert parent_of(child.pid) == os.getpid()
    assert cpu_seconds(child.pid) >= 0.25
    assert cpu_seconds_of_tree(os.getpid()) - before >= 0.25
    child.communicate(b"\n")
    assert cpu_seconds(os.getpid()) - own >= 0.25  # it has ended, and is counted for its parent


def test_a_process_that_is_gone_has_used_nothing() -> None:
    """A worker may die between two looks."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(30)
    assert cpu_seconds(child.pid) == cpu_seconds_of_tree(child.pid) == resident_bytes(child.pid) == 0
    assert parent_of(child.pid) == 0


def test_memory_is_told_in_bytes() -> None:
    """Pages would be told by another machine's size."""
    assert 10_000_000 < resident_bytes(os.getpid()) < 10_000_000_000


def test_what_began_in_between_counts_from_its_beginning() -> None:
    """And what was replaced by a younger process never counts below zero."""
    assert used_between({"a": 1.0, "b": 5.0}, {"a": 1.5, "b": 1.0, "c": 0.25}) == {"a": 0.5, "b": 0.0, "c": 0.25}
