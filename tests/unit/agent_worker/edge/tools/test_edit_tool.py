"""Editing: exactly the passage that was meant, or nothing."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.edge.tools.edit import EditTool, replaced
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.ports import ToolFailed, ToolUse


@pytest.fixture
def edit(paths: AllowedPaths) -> EditTool:
    return EditTool(paths)


def change(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": "a.txt", "old_string": old, "new_string": new, **more}


async def test_a_unique_passage_is_replaced(edit: EditTool, workspace: Path, use: ToolUse) -> None:
    """Nothing else in the file moves, nor its mode."""
    file = workspace / "a.txt"
    file.write_text("eins\nzwei\ndrei für\n", encoding="utf-8")
    file.chmod(0o640)
    assert await edit.run(change("zwei\n", ""), use) == f"Edited {file} (1 replacement)"
    assert file.read_text(encoding="utf-8") == "eins\ndrei für\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


async def test_all_are_replaced_when_asked(edit: EditTool, workspace: Path, use: ToolUse) -> None:
    """The count is told."""
    (workspace / "a.txt").write_text("a b a b a")
    assert (await edit.run(change("a", "c", replace_all=True), use)).endswith("(3 replacements)")
    assert (workspace / "a.txt").read_text() == "c b c b c"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (change("absent", "x"), "not found in the file"),
        (change("one", "x"), "occurs 2 times"),
        (change("", "x"), "empty"),
        (change("two", "two"), "the same"),
        (change("two", "\ud800"), "not valid Unicode"),
        (change("two", "x", file_path="missing.txt"), "File not found"),
        (change("two", "x", file_path="no/folder.txt"), "File not found"),
        (change("two", "x", file_path="folder"), "Not a file"),
        (change("two", "x", file_path="binary"), "binary"),
        (change("two", "x", file_path="../a.txt"), "Access denied"),
        (change("two", "x", file_path="SOUL.md"), "protected"),
        (change("two", "x", file_path="huge"), "larger than"),
    ],
)
async def test_what_cannot_be_edited_is_told(
    edit: EditTool, workspace: Path, use: ToolUse, arguments: dict[str, Any], complaint: str
) -> None:
    """And the file is as it was, and nothing can be proven."""
    (workspace / "a.txt").write_text("one two one")
    (workspace / "SOUL.md").write_text("two")
    (workspace / "folder").mkdir()
    (workspace / "binary").write_bytes(b"\xff two")
    with (workspace / "huge").open("wb") as huge:
        huge.truncate(50 * 1024 * 1024 + 1)
    with pytest.raises(ToolFailed, match=complaint):
        await edit.run(arguments, use)
    assert (workspace / "a.txt").read_text() == "one two one"
    assert await edit.prove(arguments, use) is None


def test_overlapping_occurrences_are_ambiguous() -> None:
    """Counting without overlap would find one and change the wrong place."""
    with pytest.raises(ToolFailed, match="occurs 2 times"):
        replaced("aaa", "aa", "b", replace_all=False)


@pytest.mark.parametrize(
    ("text", "old", "new", "edited"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\n", "x\r\n", "x\r\nb\r\n"),
        ("a\nb\r\n", "a\n", "x\n", "x\nb\r\n"),
        ("a\rb", "a", "c", "c\rb"),
        ("\ufeffa", "a", "b", "\ufeffb"),
    ],
)
def test_line_endings_stay_those_of_the_file(text: str, old: str, new: str, edited: str) -> None:
    """A model is shown lines and not their ends."""
    assert replaced(text, old, new, replace_all=False) == (edited, 1)


def test_a_change_of_line_endings_alone_is_no_change() -> None:
    """In a CRLF file both mean the same."""
    with pytest.raises(ToolFailed, match="the same"):
        replaced("a\r\nb\r\n", "a\n", "a\r\n", replace_all=False)


@given(st.text(), st.text(), st.text(min_size=1, alphabet="\N{OWL}\N{SNOWMAN}"), st.text())
def test_everything_around_the_passage_stays(head: str, tail: str, old: str, new: str) -> None:
    """Whatever the text is made of."""
    head, tail = (each.replace("\N{OWL}", "").replace("\N{SNOWMAN}", "").replace("\r", "") for each in (head, tail))
    if old != new:
        assert replaced(head + old + tail, old, new, replace_all=False) == (head + new + tail, 1)


async def test_edits_of_one_file_at_the_same_time_do_not_lose_each_other(
    edit: EditTool, workspace: Path, use: ToolUse
) -> None:
    """All calls of one turn run concurrently."""
    (workspace / "a.txt").write_text("".join(f"<{n}>" for n in range(20)))
    await asyncio.gather(*(edit.run(change(f"<{n}>", f"[{n}]"), use) for n in range(20)))
    assert (workspace / "a.txt").read_text() == "".join(f"[{n}]" for n in range(20))


async def test_a_proof_tells_before_from_after(edit: EditTool, workspace: Path, use: ToolUse) -> None:
    """An edit that happened must not be made again, and one that did not must not be lost."""
    (workspace / "a.txt").write_text("one")
    proof = await edit.prove(change("one", "one and one"), use)
    assert proof is not None
    assert await edit.verify(proof) == "not_done"
    await edit.run(change("one", "one and one"), use)
    assert await edit.verify(proof) == "done"
    (workspace / "a.txt").unlink()
    assert await edit.verify(proof) == "unknown"


def test_an_edit_is_never_silently_repeated(edit: EditTool) -> None:
    """Twice is not the same as once."""
    assert edit.spec.effect == "once"
