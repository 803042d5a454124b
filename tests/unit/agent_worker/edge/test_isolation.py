"""Processes of their own for runs that may be poison: the same command line, one at a time, and none is left behind."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[4]

PROGRAM = """
import asyncio, os, sys, time
from datetime import timedelta
from pathlib import Path

from services.agent_worker.edge.isolation import Isolation

NOTES = Path(sys.argv[1])


def note(text):
    with NOTES.open("a") as out:
        out.write(text + "\\n")


if given := os.environ.get("ALONE_TEST"):
    parent, _, alone = given.partition(" ")
    assert int(parent) == os.getppid()
    note(f"begin {alone} {sys.argv[2]} {os.environ['KEPT']} {os.getpid()}")
    time.sleep(30 if "stuck" in alone else 0.3)
    note(f"end {alone}")
    sys.exit()


async def main():
    isolation = Isolation(
        {"KEPT": "kept", "PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"]},
        variable="ALONE_TEST", longest=timedelta(seconds=float(sys.argv[3])),
    )
    running = asyncio.create_task(isolation.run())
    for conversation in sys.argv[4].split(","):
        isolation.ask(conversation)
        isolation.ask(conversation)
    started = time.monotonic()
    while time.monotonic() - started < float(sys.argv[5]):
        await asyncio.sleep(0.05)
        if NOTES.exists() and "end" not in NOTES.read_text():
            isolation.ask(sys.argv[4].split(",")[0])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

asyncio.run(main())
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Something that isolates, and is what it starts."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM), "utf-8")
    return file


def run(program: Path, *, longest: float, conversations: str, seconds: float) -> list[list[str]]:
    """What the processes have noted."""
    notes = program.with_name("notes.txt")
    subprocess.run(
        [sys.executable, str(program), str(notes), "an argument", str(longest), conversations, str(seconds)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)},
        check=True,
        timeout=30,
        capture_output=True,
    )
    return [line.split() for line in notes.read_text("utf-8").splitlines()]


def is_there(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_each_conversation_gets_one_process_after_the_other(program: Path) -> None:
    """The same program with the same arguments; asking each second, as the sweep does, starts no second one."""
    notes = run(program, longest=20, conversations="a,b", seconds=4)
    assert [line[:2] for line in notes] == [["begin", "a"], ["end", "a"], ["begin", "b"], ["end", "b"]]
    assert notes[0][2:5] == ["an", "argument", "kept"]


def test_one_that_does_not_end_is_ended(program: Path) -> None:
    """It would hold up all that come after it."""
    notes = run(program, longest=1, conversations="stuck,b", seconds=5)
    begun = [line for line in notes if line[0] == "begin"]
    assert [line[1] for line in begun][:1] == ["stuck"]
    assert ["end", "b"] in notes
    assert not is_there(begun[0][-1])


def test_none_is_left_behind(program: Path) -> None:
    """A worker that is told to stop takes its child along."""
    notes = run(program, longest=20, conversations="stuck", seconds=2)
    (begun,) = notes
    for _ in range(100):
        if not is_there(begun[-1]):
            break
        time.sleep(0.05)
    assert not is_there(begun[-1])
