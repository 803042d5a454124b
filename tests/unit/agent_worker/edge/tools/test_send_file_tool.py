"""Files to be sent: what is read, what is refused, and that the act comes last."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from services.agent_worker.edge.tools import kept_files
from services.agent_worker.edge.tools.kept_files import KeptFiles
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.send_file import SendFileTool
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.media_types import media_type
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.tables import Tables

PNG = b"\x89PNG\r\n\x1a\n a cat"


class Sending:
    """The tool, with what it keeps and what it asks to be sent."""

    def __init__(self, paths: AllowedPaths, use: ToolUse) -> None:
        self.workspace = paths.workspace
        self.tables = Tables(ManualClock())
        self.tool = SendFileTool(KeptFiles(paths, InMemoryBlobs(self.tables)))
        self.use = replace(use, act=self._act)
        self.sent: list[Mapping[str, Any]] = []

    async def send(self, path: str) -> str:
        return await self.tool.run({"file_path": path}, self.use)

    async def _act(self, name: str, arguments: Mapping[str, Any]) -> str:
        assert name == "send_file"
        assert self.tables.blobs[UUID(arguments["blob"])].data  # kept before it is sent
        self.sent.append(arguments)
        return "Attached"


@pytest.fixture
def sending(paths: AllowedPaths, use: ToolUse) -> Sending:
    return Sending(paths, use)


async def test_a_file_is_kept_and_then_sent(sending: Sending, workspace: Path) -> None:
    """As it is now: what is changed later changes nothing."""
    (workspace / "cat.png").write_bytes(PNG)
    assert await sending.send("cat.png") == "Attached"
    (sent,) = sending.sent
    blob = UUID(sent["blob"])
    assert sent == {"blob": str(blob), "name": "cat.png", "media_type": "image/png", "size": len(PNG), "as": "photo"}
    row = sending.tables.blobs[blob]
    assert (row.run, row.data) == (sending.use.run_id, PNG)


async def test_another_try_of_a_call_keeps_the_bytes_in_the_same_place(sending: Sending, workspace: Path) -> None:
    """Who died before the act leaves nothing behind; another call has a place of its own."""
    (workspace / "cat.png").write_bytes(PNG)
    await sending.send("cat.png")
    (workspace / "cat.png").write_bytes(PNG + b", older")
    await sending.send("cat.png")
    assert len(sending.tables.blobs) == 1
    sending.use = replace(sending.use, key="run:0:1")
    await sending.send("cat.png")
    assert len(sending.tables.blobs) == 2


@pytest.mark.parametrize(
    ("name", "data", "kind", "shown_as"),
    [
        ("a.mp3", b"ID3", "audio/mpeg", "audio"),
        ("a.MP4", b"....", "video/mp4", "video"),
        ("cat.pdf", PNG, "image/png", "photo"),
        ("no-cat.png", b"text", "application/octet-stream", "document"),
        ("notes.md", b"# notes", "text/markdown", "document"),
        ("a.gif", b"GIF89a", "image/gif", "document"),
        ("noending", b"x", "application/octet-stream", "document"),
    ],
)
async def test_how_it_is_shown_goes_by_what_it_is(
    sending: Sending, name: str, data: bytes, kind: str, shown_as: str
) -> None:
    """An image is one by its bytes; the rest goes by the ending."""
    (sending.workspace / name).write_bytes(data)
    await sending.send(name)
    (sent,) = sending.sent
    assert (sent["media_type"], sent["as"]) == (kind, shown_as) == (media_type(name, data), shown_as)


async def test_what_can_not_be_had_is_refused_and_nothing_is_kept(
    sending: Sending, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets, what lies elsewhere, links that lead there, what is no file, and what nobody would take."""
    monkeypatch.setattr(kept_files, "LARGEST_FILE", 10)
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    (workspace / "link.txt").symlink_to(outside)
    (workspace / "folder").mkdir()
    (workspace / "empty.txt").touch()
    (workspace / "large.txt").write_bytes(b"x" * 11)
    for path, sentence in (
        ("gone.txt", "File not found"),
        (str(outside), "Access denied"),
        ("link.txt", "Access denied"),
        ("/proc/self/environ", "Access denied"),
        ("folder", "Not a file"),
        ("empty.txt", "is empty"),
        ("large.txt", "is larger than"),
    ):
        with pytest.raises(ToolFailed, match=sentence):
            await sending.send(path)
    assert (sending.sent, sending.tables.blobs) == ([], {})


async def test_a_name_that_is_no_text_is_made_one(sending: Sending, workspace: Path) -> None:
    """It goes into a form, a header and a document of JSON."""
    odd = bytes(workspace) + b"/\xff\n\x01" + b"a" * 100 + b".txt"
    await asyncio.to_thread(Path(odd.decode(errors="surrogateescape")).write_bytes, b"x")
    await sending.send(odd.decode(errors="surrogateescape"))
    (sent,) = sending.sent
    assert sent["name"] == "?__" + "a" * 100 + ".txt"
