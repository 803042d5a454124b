"""How attachments are told in words, and what counts as an image."""

import pytest

from shared.domain.attachment import Attachment, ReadableText, blob_blocks, image_type, is_image, line_of
from shared.domain.chat import BlobBlock
from shared.ids import new_id

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def block(attachment: Attachment, readable: ReadableText | None = None) -> BlobBlock:
    """How it stands in its message."""
    return blob_blocks(new_id(), [attachment], readable or ReadableText())[0]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF....WEBPVP8 ", "image/webp"),
        (b"RIFF....WAVE", None),
        (b"<svg/>", None),
        (b"", None),
    ],
)
def test_an_image_is_known_by_its_first_bytes(data: bytes, seen: str | None) -> None:
    """A JPEG with the name of a PNG is common, and providers refuse the whole request for it."""
    assert image_type(data) == seen
    told = block(Attachment("image/png", data, "cat"))
    assert is_image(told) == (seen is not None)
    assert told["content_type"] == (seen or "application/octet-stream")


def test_each_kind_has_its_words() -> None:
    """Who can't be shown a thing is told of it."""
    assert block(Attachment("image/jpeg", PNG, "cat.jpg"))["text"] == "[image: cat.jpg, image/png, 28 bytes]"
    assert block(Attachment("application/pdf", b"x" * 120_400))["text"] == "[attachment: application/pdf, 120 kB]"
    voice = block(Attachment("audio/ogg", b"x" * 2_300_000, "v.oga", is_voice=True))
    assert voice["text"] == "[voice message that can't be heard yet: v.oga, audio/ogg, 2.3 MB]"
    assert not is_image(block(Attachment("image/png", PNG, is_voice=True)))


@pytest.mark.parametrize(
    "attachment",
    [
        Attachment("text/markdown", b"# hi", "notes.md"),
        Attachment("application/json", b"# hi", "notes.md"),
        Attachment("application/ld+json", b"# hi", "notes.md"),
        Attachment("application/octet-stream", b"\xef\xbb\xbf# hi", "NOTES.md"),
    ],
)
def test_text_is_read_where_it_stands(attachment: Attachment) -> None:
    """By its type, or by its name where the caller did not know the type."""
    told = block(attachment, ReadableText(endings=frozenset({".md"})))
    head, words = told["text"].split("\n", 1)
    assert head.startswith("[document: ")
    assert words == "# hi"
    assert line_of(told) == head


def test_documents_share_what_may_be_read() -> None:
    """A context can hold only so much, however many files it comes in."""
    files = [
        Attachment("text/plain", "ä€🙂é".encode()),
        Attachment("text/plain", b"abcd"),
        Attachment("text/plain", b"x"),
    ]
    told = [each["text"].split("\n")[1:] for each in blob_blocks(new_id(), files, ReadableText(6))]
    assert told == [["ä€🙂é"], ["ab", "[... the rest of the document is not shown ...]"], []]


def test_what_only_says_that_it_is_text_is_not_read() -> None:
    """A program called notes.txt would fill the context with nonsense; and text that is broken is repaired."""
    assert "\n" not in block(Attachment("text/plain", b"\x7fELF\0\0"))["text"]
    assert "\n" not in block(Attachment("text/plain", b"hi"), ReadableText(0))["text"]
    assert (
        block(Attachment("text/plain", b"gr\xfc\xdf" + b" " * 5000 + b"\0"))["text"].count("\N{REPLACEMENT CHARACTER}")
        == 3
    )


def test_ids_are_the_same_for_every_try() -> None:
    """An accept whose answer got lost is sent again, and must not store a file twice."""
    run, files = new_id(), [Attachment("text/plain", b"a"), Attachment("text/plain", b"b")]
    first, again = (blob_blocks(run, files, ReadableText()) for _ in range(2))
    assert first == again
    assert first[0]["id"] != first[1]["id"] != blob_blocks(new_id(), files, ReadableText())[1]["id"]
