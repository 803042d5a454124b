"""save_file: what plugins keep is for its owner alone, and nothing else changes its mode."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from services.agent_worker.edge.plugins.offered import Offer


def save(workspace: Path, name: str) -> None:
    sections = {"agent": {"workspace": str(workspace)}, "tools": {"filesystem": {"allowed_paths": [str(workspace)]}}}
    given: dict[str, Any] = Offer(sections).arguments(lambda save_file: None, {})
    given["save_file"](name, b"speech")


def test_a_link_put_in_a_saved_files_place_changes_no_other_files_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's commands write in the workspace: what lies at the path a moment later may lead to a program."""
    program, rename = tmp_path / "program", os.rename
    program.touch(mode=0o755)
    before = stat.S_IMODE(program.stat().st_mode)
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    def swapped(source: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        rename(source, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        os.unlink(name, dir_fd=dst_dir_fd)
        os.symlink(program, name, dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", swapped)
    save(workspace, "voice.mp3")
    assert (workspace / "voice.mp3").is_symlink()
    assert stat.S_IMODE(program.stat().st_mode) == before


def test_a_saved_file_is_its_owners_alone_also_where_another_lay(tmp_path: Path) -> None:
    """What is spoken is nobody else's, whatever the mode of the file that it replaces."""
    (tmp_path / "old.mp3").touch(mode=0o644)
    for name in ("old.mp3", "new.mp3"):
        save(tmp_path, name)
        assert (tmp_path / name).read_bytes() == b"speech"
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
