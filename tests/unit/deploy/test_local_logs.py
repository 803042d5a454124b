"""What the launcher keeps and shows of its children's logs."""

from pathlib import Path

import pytest

from deploy.local import log_file
from deploy.local.log_file import KEPT, LogReader, keep_small, open_log
from deploy.local.log_lines import line_to_show


@pytest.mark.parametrize("level", ["warning", "error", "CRITICAL"])
def test_what_is_wrong_is_shown(level: str) -> None:
    """The person in front of the terminal should not have to open a log to see that something broke."""
    line = f'{{"level": "{level}", "event": "redis_away", "timestamp": "now", "tries": 3}}'
    assert line_to_show(line) == f"{level.lower()} redis_away tries=3"


@pytest.mark.parametrize("line", ['{"level": "info", "event": "started"}', '{"level":"debug"}', "", "  "])
def test_what_is_well_is_not_shown(line: str) -> None:
    """Six services at work would bury the one line that matters."""
    assert line_to_show(line) is None


@pytest.mark.parametrize("line", ["Traceback (most recent call last):", "{not json", '{"no": "level"}', "[1, 2]"])
def test_what_can_not_be_judged_passes_unchanged(line: str) -> None:
    """A traceback of the interpreter is not JSON, and is what one wants to see most."""
    assert line_to_show(line) == line


def test_a_reader_sees_only_what_is_new_and_only_whole_lines(tmp_path: Path) -> None:
    """Half a line would be shown as two, and taken for text that is not JSON."""
    file = tmp_path / "a.log"
    file.write_text("old\n")
    reader = LogReader(file)
    with file.open("a") as log:
        log.write("one\ntw")
        log.flush()
        assert reader.new_lines() == ["one"]
        log.write("o\nthree")
    assert reader.new_lines() == ["two"]
    assert reader.new_lines(to_the_end=True) == ["three"]
    assert reader.new_lines(to_the_end=True) == []


def test_a_reader_waits_for_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    """A service may die before it wrote anything."""
    assert LogReader(tmp_path / "none.log").new_lines(to_the_end=True) == []


def test_a_large_log_is_put_aside_and_only_the_last_three_are_kept(tmp_path: Path) -> None:
    """A system that runs for years must not fill the disk with what it once said."""
    file = tmp_path / "a.log"
    for number in range(KEPT + 2):
        with file.open("wb") as log:
            log.write(str(number).encode())
            log.truncate(log_file.LARGEST + 1)
        open_log(file).close()
    assert file.read_bytes() == b""
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.log", "a.log.1", "a.log.2", "a.log.3"]
    with file.with_name("a.log.1").open("rb") as newest:
        assert newest.read(1) == b"4"


def test_a_log_is_put_aside_while_it_is_written_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    """A service that runs for a year never comes to its next start."""
    file = tmp_path / "a.log"
    with open_log(file) as writer:
        reader = LogReader(file)
        line = b"x" * 999 + b"\n"
        written = log_file.LARGEST // len(line) + 1
        for _ in range(written):
            writer.write(line)
        writer.flush()
        reader.new_lines()
        assert keep_small(file)
        assert not keep_small(file)
        writer.write(b"and on it goes\n")
        writer.flush()
        assert reader.new_lines() == ["and on it goes"]
    assert file.read_bytes() == b"and on it goes\n"
    assert file.with_name("a.log.1").stat().st_size == written * len(line)
    assert not keep_small(tmp_path / "none.log")


def test_a_small_log_goes_on(tmp_path: Path) -> None:
    """What was said before the last start is often what explains this one."""
    (tmp_path / "a.log").write_text("before\n")
    with open_log(tmp_path / "a.log") as log:
        log.write(b"after\n")
    assert (tmp_path / "a.log").read_text() == "before\nafter\n"
