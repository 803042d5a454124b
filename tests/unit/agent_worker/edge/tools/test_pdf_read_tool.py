"""PDFs: their text by page, and documents that are none, scanned, locked or made to hurt."""

import io
from pathlib import Path

import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from services.agent_worker.edge.tools import pdf_read
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.pdf_read import PdfReadTool
from services.agent_worker.edge.tools.pdf_text import pages_as_text
from services.agent_worker.ports import ToolFailed, ToolUse


def document(*pages: str, password: str | None = None) -> bytes:
    """A PDF with these words, one page each; an empty one has none, as a scan."""
    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(width=600, height=800)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode() if text else b"")
        page[NameObject("/Contents")] = stream
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.fixture
def tool(paths: AllowedPaths) -> PdfReadTool:
    return PdfReadTool(paths)


async def test_the_text_comes_page_by_page(tool: PdfReadTool, workspace: Path, use: ToolUse) -> None:
    """With numbers, so that one can be quoted."""
    (workspace / "a.pdf").write_bytes(document("First words", "Second words", "Third words"))
    said = await tool.run({"file_path": "a.pdf", "pages": "3,1"}, use)
    assert said == "--- Page 3 of 3 ---\nThird words\n\n--- Page 1 of 3 ---\nFirst words"


async def test_scanned_pages_are_named(tool: PdfReadTool, workspace: Path, use: ToolUse) -> None:
    """Silence would look like a document without content."""
    (workspace / "a.pdf").write_bytes(document("Words", "", ""))
    said = await tool.run({"file_path": "a.pdf"}, use)
    assert said == "--- Page 1 of 3 ---\nWords\n\n(No text on pages 2, 3: scanned images, or damaged.)"


def test_a_long_document_is_cut_and_says_so() -> None:
    """The model may ask for the rest."""
    said = pages_as_text(document("a" * 40, "b" * 80), "1-", 100)
    assert "b" * 81 not in said
    assert said.endswith("... (cut at 100 characters on page 2; name fewer pages to read on)")
    assert len(said) < 200


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"plain text", "Not a PDF file"),
        (b"", "Not a PDF file"),
        (b"%PDF-1.7\nrubbish", "The document can't be read"),
        (document("x", password="secret"), "encrypted with a password"),
    ],
)
async def test_what_cannot_be_read_is_told(
    tool: PdfReadTool, workspace: Path, use: ToolUse, data: bytes, said: str
) -> None:
    """One sentence each."""
    (workspace / "a.pdf").write_bytes(data)
    with pytest.raises(ToolFailed, match=said):
        await tool.run({"file_path": "a.pdf"}, use)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"file_path": "none.pdf"}, "File not found"),
        ({"file_path": "/etc/passwd"}, "Access denied"),
        ({"file_path": "a.pdf", "pages": "9"}, "has 1 page, and none of those"),
        ({"file_path": "a.pdf", "pages": "x"}, "pages must be like"),
    ],
)
async def test_wrong_arguments_are_told(
    tool: PdfReadTool, workspace: Path, use: ToolUse, arguments: dict[str, str], said: str
) -> None:
    """Before or after a look at the file."""
    (workspace / "a.pdf").write_bytes(document("x"))
    with pytest.raises(ToolFailed, match=said):
        await tool.run(arguments, use)


async def test_a_document_that_unpacks_to_far_more_is_let_be(tool: PdfReadTool, workspace: Path, use: ToolUse) -> None:
    """A small file may hold any size; the worker is not touched by that, and the page is told."""
    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(width=10, height=10)
    stream = DecodedStreamObject()
    stream.set_data(b"BT (" + b"a" * 300_000_000 + b") Tj ET")
    page[NameObject("/Contents")] = stream.flate_encode()
    out = io.BytesIO()
    writer.write(out)
    (workspace / "bomb.pdf").write_bytes(out.getvalue())
    assert len(out.getvalue()) < 1_000_000
    said = await tool.run({"file_path": "bomb.pdf"}, use)
    assert said == "(No text on page 1: scanned images, or damaged.)"


async def test_a_document_that_takes_too_long_is_given_up(
    tool: PdfReadTool, workspace: Path, use: ToolUse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is ended."""
    monkeypatch.setattr(pdf_read, "WITHIN", 0.01)
    (workspace / "a.pdf").write_bytes(document("x"))
    with pytest.raises(ToolFailed, match=r"within 0.01 seconds"):
        await tool.run({"file_path": "a.pdf"}, use)
