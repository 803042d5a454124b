"""Small files stand in the reply itself, as the original's clients expect; others are fetched."""

import base64
from typing import Any
from uuid import UUID

import pytest

from services.gateway.edge import enclosed_files
from services.gateway.edge.enclosed_files import EnclosedFiles
from services.gateway.rules.lucyd_dialect import told
from shared.domain.attachment import Attachment
from shared.domain.outgoing_file import OutgoingFile
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.reply_files import ReplyFile
from tests.runs_worlds import InMemoryWorld


async def enclosed(world: InMemoryWorld, run: UUID, *files: bytes) -> dict[str, Any]:
    """A reply that these files came with."""
    for data in files:
        file = OutgoingFile(new_id(), "a.txt", "text/plain", len(data), "document")
        await world.blobs.keep(file.blob, run, Attachment("text/plain", data, "a.txt"))
        world.tables.reply_files.setdefault(run, []).append(file.document())
    attachments = [{"filename": "a.txt", "content_type": "text/plain", "size": len(data)} for data in files]
    return {"state": "done", "run_id": str(run), "reply": "", "attachments": attachments}


class Known(InMemoryWorld):
    """A store in which each run has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False

    async def file(self, run: UUID, number: int) -> ReplyFile | None:
        if self.away:
            raise TryLater("Postgres is away")
        file = self.tables.reply_files[run][number - 1]
        blob = UUID(file["blob"])
        return ReplyFile(file["name"], file["media_type"], file["size"], blob, is_kept=blob in self.tables.blobs)

    def pieces(self, file: ReplyFile) -> Any:
        return self.reply_files.pieces(file)


async def test_files_are_enclosed_as_long_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large for the reply has its address alone, and what follows it may still fit."""
    monkeypatch.setattr(enclosed_files, "MOST_ENCLOSED", 10)
    world, run = Known(), new_id()
    reply, _ = told(run, await enclosed(world, run, b"12345", b"12345678", b"54321"))
    await EnclosedFiles(world).put_into(reply)
    data = [each.get("data") for each in reply["attachments"]]
    assert data == [base64.b64encode(b"12345").decode(), None, base64.b64encode(b"54321").decode()]
    assert [each["url"][-14:] for each in reply["attachments"]] == [f"/attachments/{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("how", ["away", "gone"])
async def test_a_reply_is_told_also_where_its_files_can_not_be_had(how: str) -> None:
    """The words are worth more."""
    world, run = Known(), new_id()
    reply, _ = told(run, await enclosed(world, run, b"12345"))
    world.away = how == "away"
    world.tables.blobs.clear()
    await EnclosedFiles(world).put_into(reply)
    assert "data" not in reply["attachments"][0]


async def test_a_reply_without_files_is_left_as_it_is() -> None:
    """Almost all are."""
    run = new_id()
    reply, _ = told(run, {"state": "done", "run_id": str(run), "reply": "hi"})
    await EnclosedFiles(Known()).put_into(reply)
    assert reply["attachments"] == []
