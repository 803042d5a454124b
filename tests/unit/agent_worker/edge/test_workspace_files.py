"""What a model is shown of the workspace: as it is on the disk, however many ask."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.workspace_files import TierNames, WorkspaceFiles
from services.agent_worker.rules.prompt import ContextFiles

TIERS = {
    "full": TierNames(stable=("SOUL.md",), semi_stable=("MEMORY.md", "TODAY.md")),
    "small": TierNames(("SOUL.md",)),
}


async def test_files_that_are_there_are_shown_in_their_order_and_read_anew_when_they_change(tmp_path: Path) -> None:
    """What is not there is left out; an unknown tier has none."""
    files = WorkspaceFiles(AllowedPaths([tmp_path], tmp_path), TIERS)
    (tmp_path / "SOUL.md").write_text("kind", "utf-8")
    (tmp_path / "TODAY.md").write_text("rain", "utf-8")
    assert await files.context_files("full") == ContextFiles([("SOUL.md", "kind")], [("TODAY.md", "rain")])
    (tmp_path / "SOUL.md").write_text("very kind", "utf-8")
    assert await files.context_files("small") == ContextFiles([("SOUL.md", "very kind")], [])
    assert await files.context_files("nowhere") == ContextFiles([], [])


async def test_a_name_that_leads_to_a_secret_a_pipe_or_a_device_is_no_part_of_a_prompt(tmp_path: Path) -> None:
    """Commands may put anything in a file's place: the model must not read what its tools may not, and nobody hangs."""
    data, workspace = tmp_path / "data", tmp_path / "data" / "workspace"
    workspace.mkdir(parents=True)
    (data / "http_token").write_text("lk_secret", "utf-8")
    (tmp_path / "elsewhere").write_text("of another folder", "utf-8")
    (workspace / "real.md").write_text("rain", "utf-8")
    (workspace / "TODAY.md").symlink_to(workspace / "real.md")
    files = WorkspaceFiles(AllowedPaths([workspace], workspace, hidden=[data]), TIERS)
    for target in (data / "http_token", Path("/proc/self/environ"), tmp_path / "elsewhere", Path("/dev/zero")):
        (workspace / "MEMORY.md").symlink_to(target)
        assert await files.context_files("full") == ContextFiles([], [("TODAY.md", "rain")])
        (workspace / "MEMORY.md").unlink()
    os.mkfifo(workspace / "MEMORY.md")
    async with asyncio.timeout(10):
        assert await files.context_files("full") == ContextFiles([], [("TODAY.md", "rain")])
    (workspace / "MEMORY.md").unlink()
    (workspace / "MEMORY.md").write_text("wind", "utf-8")
    assert (await files.context_files("full")).semi_stable == [("MEMORY.md", "wind"), ("TODAY.md", "rain")]


class SlowFolder(WorkspaceFiles):
    """Counts the looks that have read the folder; each waits until it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(AllowedPaths([root], root), TIERS)
        self.looks = 0
        self.go_on = threading.Semaphore(0)

    def _context_files(self, names: TierNames) -> ContextFiles:
        found = super()._context_files(names)
        self.looks += 1
        assert self.go_on.acquire(timeout=10)
        return found


async def _read(folder: SlowFolder, looks: int) -> None:
    async with asyncio.timeout(10):
        while folder.looks < looks:
            await asyncio.sleep(0.001)


def _stable(found: Sequence[ContextFiles]) -> list[Sequence[tuple[str, str]]]:
    return [each.stable for each in found]


async def test_one_look_is_for_all_who_asked_before_it_began_and_for_nobody_else(tmp_path: Path) -> None:
    """A run that begins right behind a write reads what was written."""
    folder = SlowFolder(tmp_path)
    soul = tmp_path / "SOUL.md"
    soul.write_text("old", "utf-8")
    first = [asyncio.create_task(folder.context_files("full")) for _ in range(3)]
    await _read(folder, 1)
    soul.write_text("newer", "utf-8")
    later = [asyncio.create_task(folder.context_files("full")) for _ in range(5)]
    await asyncio.sleep(0)
    later[0].cancel()
    folder.go_on.release()
    assert _stable(await asyncio.gather(*first)) == [[("SOUL.md", "old")]] * 3
    await _read(folder, 2)
    folder.go_on.release()
    assert _stable(await asyncio.gather(*later[1:])) == [[("SOUL.md", "newer")]] * 4
    assert folder.looks == 2
