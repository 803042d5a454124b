"""Writing: whole or not at all, and able to tell afterwards."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.write import WriteTool
from services.agent_worker.ports import ToolFailed, ToolUse


@pytest.fixture
def write(paths: AllowedPaths) -> WriteTool:
    return WriteTool(paths)


async def test_a_new_file_is_made_with_the_folders_above_it(write: WriteTool, workspace: Path, use: ToolUse) -> None:
    """The agent does not have to make folders first."""
    told = await write.run({"file_path": "deep/er/ä.md", "content": "Grüße\r\n\N{OWL}"}, use)
    assert told == f"Written 8 characters to {workspace / 'deep/er/ä.md'}"
    assert (workspace / "deep/er/ä.md").read_bytes() == "Grüße\r\n\N{OWL}".encode()


async def test_an_existing_file_is_replaced_and_keeps_its_mode(write: WriteTool, workspace: Path, use: ToolUse) -> None:
    """A script stays executable; nothing else is left in the folder."""
    script = workspace / "run.sh"
    script.write_text("old, and longer than the new one")
    script.chmod(0o750)
    await write.run({"file_path": "run.sh", "content": "new"}, use)
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert list(workspace.iterdir()) == [script]


async def test_a_link_inside_stays_a_link(write: WriteTool, workspace: Path, use: ToolUse) -> None:
    """What is written is the file it leads to."""
    (workspace / "real.md").write_text("old")
    (workspace / "alias.md").symlink_to("real.md")
    await write.run({"file_path": "alias.md", "content": "new"}, use)
    assert (workspace / "alias.md").is_symlink()
    assert (workspace / "real.md").read_text() == "new"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"file_path": "../x", "content": "c"}, "Access denied"),
        ({"file_path": "folder", "content": "c"}, "Not a file"),
        ({"file_path": "pipe", "content": "c"}, "Not a file"),
        ({"file_path": "file/x", "content": "c"}, "not a folder"),
        ({"file_path": "new", "content": "\ud800"}, "not valid Unicode"),
        ({"file_path": "SOUL.md", "content": "c"}, "protected"),
        ({"file_path": "AGENTS.md", "content": "c"}, "protected"),
        ({"file_path": "TOOLS.md", "content": "c"}, "protected"),
        ({"file_path": "MAINTAIN.md", "content": "c"}, "protected"),
        ({"file_path": "folder/../SOUL.md", "content": "c"}, "protected"),
        ({"file_path": "innocent.md", "content": "c"}, "protected"),
    ],
)
async def test_what_may_not_or_cannot_be_written_is_told(
    write: WriteTool, workspace: Path, use: ToolUse, arguments: dict[str, str], complaint: str
) -> None:
    """And nothing has changed, nor can such a call prove anything."""
    (workspace / "folder").mkdir()
    os.mkfifo(workspace / "pipe")
    (workspace / "file").touch()
    (workspace / "SOUL.md").write_text("who I am")
    (workspace / "innocent.md").symlink_to("SOUL.md")
    before = sorted(workspace.iterdir())
    with pytest.raises(ToolFailed, match=complaint):
        await write.run(arguments, use)
    assert sorted(workspace.iterdir()) == before
    assert (workspace / "SOUL.md").read_text() == "who I am"
    assert await write.prove(arguments, use) is None


async def test_what_is_protected_is_the_operators_choice(paths: AllowedPaths, workspace: Path, use: ToolUse) -> None:
    """The first generation of the original could write its own soul."""
    await WriteTool(paths, protected_names=()).run({"file_path": "SOUL.md", "content": "me"}, use)
    assert (workspace / "SOUL.md").read_text() == "me"


async def test_a_file_that_is_not_writable_is_left_alone(unprivileged: Path, use: ToolUse) -> None:
    """A rename would get around the mode; a write must not."""
    file = unprivileged / "locked.txt"
    file.write_text("old")
    file.chmod(0o444)
    write = WriteTool(AllowedPaths([unprivileged], unprivileged))
    with pytest.raises(ToolFailed, match="Permission denied"):
        await write.run({"file_path": "locked.txt", "content": "new"}, use)
    assert file.read_text() == "old"
    assert list(unprivileged.iterdir()) == [file]


async def test_a_reader_never_sees_half_a_file(write: WriteTool, workspace: Path, use: ToolUse) -> None:
    """Others read the workspace while the agent writes."""
    sizes = set()
    file = workspace / "a.txt"
    file.write_text("a" * 500_000)

    async def rewrite() -> None:
        for letter in "bcdefgh":
            await write.run({"file_path": "a.txt", "content": letter * 500_000}, use)

    writing = asyncio.create_task(rewrite())
    while not writing.done():
        text = file.read_text()
        sizes.add((len(text), len(set(text))))
        await asyncio.sleep(0)
    await writing
    assert sizes == {(500_000, 1)}


async def test_a_proof_tells_before_from_after(write: WriteTool, workspace: Path, use: ToolUse) -> None:
    """An heir learns what the dead owner did."""
    arguments = {"file_path": "a.txt", "content": "new"}
    proof = await write.prove(arguments, use)
    assert proof is not None
    assert proof["before"] is None
    assert await write.verify(proof) == "not_done"
    await write.run(arguments, use)
    assert await write.verify(proof) == "done"
    (workspace / "a.txt").write_text("a third hand")
    assert await write.verify(proof) == "unknown"
    over = await write.prove(arguments, use)
    assert over is not None
    assert await write.verify(over) == "not_done"


async def test_a_proof_that_cannot_be_checked_is_unknown(
    write: WriteTool, workspace: Path, tmp_path: Path, use: ToolUse
) -> None:
    """Never a guess."""
    proof = await write.prove({"file_path": "a/b.txt", "content": "new"}, use)
    assert proof is not None
    assert await write.verify({}) == "unknown"
    assert await write.verify({**proof, "path": "/etc/passwd"}) == "unknown"
    (tmp_path / "elsewhere").mkdir()
    (workspace / "a").symlink_to(tmp_path / "elsewhere")
    assert await write.verify(proof) == "unknown"


def test_writing_may_be_repeated(write: WriteTool) -> None:
    """The same content twice is the same file."""
    assert write.spec.effect == "idempotent"
