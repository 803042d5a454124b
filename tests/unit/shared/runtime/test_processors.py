"""How busy the processors are that this process may use, read from what the system counts."""

import os
import sys
from pathlib import Path

import pytest

from shared.runtime.processors import Processors

ZERO = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def _write(file: Path, **processors: tuple[int, ...]) -> None:
    lines = [f"{name} {' '.join(map(str, figures))}" for name, figures in processors.items()]
    file.write_text("\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *lines, "intr 5 4 3", "ctxt 7", ""]))


SECOND_AND_THIRD = (1, 2)


def test_time_at_work_is_all_but_idle_and_waiting_for_a_disk(tmp_path: Path) -> None:
    """User, nice, system, interrupts, and what the host of the machine gave to others."""
    stat = tmp_path / "stat"
    _write(stat, cpu0=ZERO, cpu1=ZERO, cpu2=ZERO)
    processors = Processors(stat, usable=SECOND_AND_THIRD)
    assert processors.busy() is None  # nothing to compare with yet
    _write(stat, cpu0=ZERO, cpu1=(40, 10, 20, 5, 5, 5, 5, 10, 40, 10), cpu2=(80, 0, 10, 10, 0, 0, 0, 0, 80, 0))
    assert processors.busy() == pytest.approx(0.9)


def test_the_processors_of_others_do_not_count(tmp_path: Path) -> None:
    """A container that was given two of sixty-four is full when these are."""
    stat = tmp_path / "stat"
    _write(stat, cpu0=ZERO, cpu1=ZERO, cpu2=ZERO, cpu12=ZERO)
    processors = Processors(stat, usable=SECOND_AND_THIRD)
    processors.busy()
    busy, idle = (100, 0, 0, 0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 100, 0, 0, 0, 0, 0, 0)
    _write(stat, cpu0=idle, cpu1=busy, cpu2=busy, cpu12=idle)
    assert processors.busy() == 1.0
    assert (processors.count, processors.name) == (2, "1-2")


def test_each_call_looks_back_to_the_one_before(tmp_path: Path) -> None:
    """What was long ago says nothing about now."""
    stat = tmp_path / "stat"
    _write(stat, cpu1=ZERO, cpu2=ZERO)
    processors = Processors(stat, usable=SECOND_AND_THIRD)
    processors.busy()
    _write(stat, cpu1=(100, 0, 0, 0, 0, 0, 0, 0, 0, 0), cpu2=(100, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    assert processors.busy() == 1.0
    _write(stat, cpu1=(100, 0, 0, 100, 0, 0, 0, 0, 0, 0), cpu2=(100, 0, 0, 100, 0, 0, 0, 0, 0, 0))
    assert processors.busy() == 0.0
    assert processors.busy() is None  # nothing was spent since


@pytest.mark.parametrize("told", [None, "", "cpu1 x y z\n", "cpu1\n", "\x80"])
def test_a_system_that_does_not_tell_is_no_fault(tmp_path: Path, told: str | None) -> None:
    """There is no such file elsewhere, and a sandbox may show an empty one."""
    stat = tmp_path / "stat"
    if told is not None:
        stat.write_text(told, "latin-1")
    processors = Processors(stat, usable=SECOND_AND_THIRD)
    assert processors.busy() is None
    assert processors.busy() is None


@pytest.mark.parametrize(
    ("usable", "name"), [({0}, "0"), ({0, 1}, "0-1"), ({5, 0, 1, 2, 7, 8}, "0-2,5,7-8"), ({11, 2}, "2,11")]
)
def test_processors_are_named_as_the_system_names_them(usable: set[int], name: str) -> None:
    """Workers with the same name share the same processors."""
    processors = Processors(usable=usable)
    assert (processors.name, processors.count) == (name, len(usable))


def test_elsewhere_all_processors_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system can give a process only some."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert Processors().name == "0-3"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells it this way")
def test_linux_tells() -> None:
    """The file is as it is thought to be."""
    processors = Processors()
    processors.busy()
    busy = None
    while not busy:  # the system counts a hundred times a second, and this loop makes one of them busy
        busy = processors.busy()
    assert busy <= 1
    assert processors.count == len(os.sched_getaffinity(0))
