"""A workspace to work in, and somebody who asks."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.ports import ToolUse
from shared.ids import new_id


@pytest.fixture
def use() -> ToolUse:
    return ToolUse(run_id=new_id(), session_id=new_id(), conversation="cli", key="run:0:0")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def paths(workspace: Path) -> AllowedPaths:
    return AllowedPaths([workspace], workspace)


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder that everybody may enter, with the rights of an ordinary user: to root no file is forbidden."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        if os.geteuid() != 0:
            yield folder
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield folder
        finally:
            os.seteuid(0)
