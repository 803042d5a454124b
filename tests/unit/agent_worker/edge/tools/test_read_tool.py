"""Reading: numbered pages of text, and a clear word for everything that is not text."""

import os
from pathlib import Path
from typing import Any

import pytest

from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.read import ReadTool
from services.agent_worker.ports import ToolFailed, ToolUse


@pytest.fixture
def read(paths: AllowedPaths) -> ReadTool:
    return ReadTool(paths)


async def test_lines_are_numbered_from_one(read: ReadTool, workspace: Path, use: ToolUse) -> None:
    """Six wide, a tab, the line."""
    (workspace / "a.txt").write_text("first\nsecond\n\nfourth")
    assert await read.run({"file_path": "a.txt"}, use) == "     1\tfirst\n     2\tsecond\n     3\t\n     4\tfourth"


async def test_a_page_tells_its_real_numbers_and_how_many_lines_are_left(
    read: ReadTool, workspace: Path, use: ToolUse
) -> None:
    """The model asks for the next page by itself."""
    (workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    page = await read.run({"file_path": "a.txt", "offset": 3, "limit": 2}, use)
    assert page == "     4\tline 4\n     5\tline 5\n... (5 more lines)"
    assert (await read.run({"file_path": "a.txt", "limit": 9}, use)).endswith("... (1 more line)")
    assert "more line" not in await read.run({"file_path": "a.txt", "limit": 10}, use)


async def test_a_last_line_without_an_end_is_counted(read: ReadTool, workspace: Path, use: ToolUse) -> None:
    """Not every file ends with a newline."""
    (workspace / "a.txt").write_text("1\n2\n3")
    assert (await read.run({"file_path": "a.txt", "limit": 1}, use)).endswith("... (2 more lines)")


async def test_the_default_limit_is_the_operators(paths: AllowedPaths, workspace: Path, use: ToolUse) -> None:
    """default_read_limit of the configuration."""
    (workspace / "a.txt").write_text("x\n" * 5)
    read = ReadTool(paths, default_limit=3)
    assert (await read.run({"file_path": "a.txt"}, use)).endswith("... (2 more lines)")
    assert read.spec.input_schema["properties"]["limit"]["default"] == 3


@pytest.mark.parametrize("character", ["x", "ä", "\N{SNOWMAN}", "\N{OWL}"])
async def test_long_lines_are_cut_at_two_thousand_characters(
    read: ReadTool, workspace: Path, use: ToolUse, character: str
) -> None:
    """Characters, not bytes, and the model is told."""
    (workspace / "a.txt").write_text("a" + character * 100_000 + "\nnext\n", encoding="utf-8")
    first, second, notice = (await read.run({"file_path": "a.txt"}, use)).split("\n")
    assert first == "     1\ta" + character * 1999
    assert second == "     2\tnext"
    assert "cut" in notice


async def test_only_line_feeds_end_lines(read: ReadTool, workspace: Path, use: ToolUse) -> None:
    """Numbers must be those of every editor and of grep -n."""
    (workspace / "a.txt").write_bytes("a\u2028b\x0cc\r\nd\n".encode())
    assert await read.run({"file_path": "a.txt"}, use) == "     1\ta\u2028b\x0cc\n     2\td"


async def test_an_empty_file_and_an_offset_behind_the_end_are_said(
    read: ReadTool, workspace: Path, use: ToolUse
) -> None:
    """An empty result would look like a fault."""
    (workspace / "empty.txt").touch()
    (workspace / "a.txt").write_text("1\n2\n")
    assert await read.run({"file_path": "empty.txt"}, use) == "(empty file)"
    for offset in (2, 3, 50):
        told = await read.run({"file_path": "a.txt", "offset": offset}, use)
        assert told == f"(nothing from offset {offset} on: the file has 2 lines)"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"file_path": "missing.txt"}, "File not found"),
        ({"file_path": "folder"}, "Not a file"),
        ({"file_path": "text.txt/x"}, "not a folder"),
        ({"file_path": "pipe"}, "Not a file"),
        ({"file_path": "binary"}, "binary"),
        ({"file_path": "latin1.txt"}, "binary"),
        ({"file_path": "../x"}, "Access denied"),
        ({"file_path": "x" * 5000}, "Cannot use"),
        ({"file_path": "text.txt", "offset": -1}, "offset must not be negative"),
        ({"file_path": "text.txt", "limit": 0}, "limit must be at least 1"),
    ],
)
async def test_what_cannot_be_read_is_told(
    read: ReadTool, workspace: Path, use: ToolUse, arguments: dict[str, Any], complaint: str
) -> None:
    """Each reason has its own sentence; a named pipe does not hang the worker."""
    (workspace / "folder").mkdir()
    os.mkfifo(workspace / "pipe")
    (workspace / "text.txt").write_text("x")
    (workspace / "binary").write_bytes(b"\x7fELF\0\0")
    (workspace / "latin1.txt").write_bytes("für".encode("latin-1"))
    with pytest.raises(ToolFailed, match=complaint):
        await read.run(arguments, use)


async def test_a_file_without_permission_is_told(unprivileged: Path, use: ToolUse) -> None:
    """The worker has the rights it has."""
    file = unprivileged / "closed.txt"
    file.write_text("x")
    file.chmod(0)
    with pytest.raises(ToolFailed, match="Permission denied"):
        await ReadTool(AllowedPaths([unprivileged], unprivileged)).run({"file_path": "closed.txt"}, use)


async def test_a_page_of_a_huge_file_costs_a_page(read: ReadTool, workspace: Path, use: ToolUse) -> None:
    """Sparse files are cheap to make: this one claims to have two gigabytes."""
    with (workspace / "huge.log").open("wb") as file:
        file.write(b"a line\n" * 5000)
        file.truncate(2 * 1024**3)
    page = await read.run({"file_path": "huge.log", "limit": 2}, use)
    assert page == "     1\ta line\n     2\ta line\n... (more lines)"
    with pytest.raises(ToolFailed, match="too deep"):
        await read.run({"file_path": "huge.log", "offset": 6000}, use)


async def test_a_limit_without_measure_is_bounded(read: ReadTool, workspace: Path, use: ToolUse) -> None:
    """What no window holds is not gathered."""
    (workspace / "wide.txt").write_text(("y" * 1999 + "\n") * 2000)
    page = await read.run({"file_path": "wide.txt", "limit": 10**12}, use)
    assert len(page) < 1_010_000
    assert page.endswith("more lines)")
