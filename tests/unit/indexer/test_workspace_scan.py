"""What is read of the workspace, and what is not."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from services.indexer.edge.workspace import LARGEST_FILE, WorkspaceFolder

PATTERNS = ("memory/*.md", "MEMORY.md")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workspace" / "memory" / "cache").mkdir(parents=True)
    return tmp_path / "workspace"


def test_files_are_known_by_what_is_in_them(folder: Path) -> None:
    """A touched file is not a changed one."""
    (folder / "MEMORY.md").write_bytes(b"likes tea")
    (folder / "other.md").write_bytes(b"not asked for")
    scan = WorkspaceFolder(folder, PATTERNS).scan()
    assert {path: file.hash for path, file in scan.files.items()} == {"MEMORY.md": sha256(b"likes tea").hexdigest()}
    assert scan.files["MEMORY.md"].size == 9


def test_a_link_out_of_the_workspace_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """The agent can make links; it must not pull the operator's files into its memory with one."""
    secret = tmp_path / "secret.md"
    secret.write_bytes(b"secret")
    (folder / "memory" / "out.md").symlink_to(secret)
    (folder / "far").symlink_to(tmp_path)
    (folder / "memory" / "in.md").symlink_to(folder / "MEMORY.md")
    (folder / "MEMORY.md").write_bytes(b"x")
    scan = WorkspaceFolder(folder, (*PATTERNS, "far/*.md", "../*.md", str(secret), "")).scan()
    assert set(scan.files) == {"MEMORY.md", "memory/in.md"}
    assert not scan.unreadable


def test_what_can_not_be_read_is_counted_and_the_rest_is_read(folder: Path) -> None:
    """One broken file must not keep the others from being found."""
    (folder / "MEMORY.md").write_bytes(b"x")
    (folder / "memory" / "gone.md").symlink_to(folder / "nothing.md")
    (folder / "memory" / "loop.md").symlink_to(folder / "memory" / "loop.md")
    (folder / "memory" / os.fsdecode(b"\xff.md")).write_bytes(b"a name that is no text")
    os.mkfifo(folder / "memory" / "pipe.md")
    (folder / "memory" / "folder.md").mkdir()
    scan = WorkspaceFolder(folder, PATTERNS).scan()
    assert set(scan.files) == {"MEMORY.md"}
    assert len(scan.unreadable) == 3


def test_a_huge_file_is_passed_over(folder: Path) -> None:
    """Ten megabytes of notes are no notes."""
    with (folder / "MEMORY.md").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    scan = WorkspaceFolder(folder, PATTERNS).scan()
    assert (set(scan.files), set(scan.too_large)) == (set(), {"MEMORY.md"})


def test_excluded_folders_are_passed_over(folder: Path) -> None:
    """The cache is left out without being told, and what is told is left out instead."""
    for name in ("memory/cache/a.md", "memory/cached.md"):
        (folder / name).write_bytes(b"x")
    every = ("**/*.md",)
    assert set(WorkspaceFolder(folder, every).scan().files) == {"memory/cached.md"}
    assert set(WorkspaceFolder(folder, every, ("memory",)).scan().files) == set()
    assert set(WorkspaceFolder(folder, every, ("elsewhere",)).scan().files) == {"memory/cache/a.md", "memory/cached.md"}


def test_a_file_is_read_as_text_with_what_is_known_of_it(folder: Path) -> None:
    """Hash and text are of the same bytes; what is no text is told from the rest by its sign."""
    (folder / "MEMORY.md").write_bytes(b"\xef\xbb\xbfZ\xc3\xbcrich \xff\n")
    workspace = WorkspaceFolder(folder, PATTERNS)
    found = workspace.read("MEMORY.md")
    assert found is not None
    assert found[0] == workspace.scan().files["MEMORY.md"]
    assert found[1] == "Z\u00fcrich \ufffd\n"


def test_what_can_no_longer_be_read_gives_no_text(folder: Path, tmp_path: Path) -> None:
    """Between the look and the reading the agent goes on working."""
    secret = tmp_path / "secret.md"
    secret.write_bytes(b"secret")
    (folder / "memory" / "out.md").symlink_to(secret)
    (folder / "memory" / "folder.md").mkdir()
    with (folder / "memory" / "grown.md").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    workspace = WorkspaceFolder(folder, PATTERNS)
    for name in ("memory/absent.md", "memory/out.md", "memory/folder.md", "memory/grown.md"):
        assert workspace.read(name) is None, name
