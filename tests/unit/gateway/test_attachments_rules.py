"""What callers send as attachments, before anything is stored."""

import base64
import re
from typing import Any

import pytest

from services.gateway.rules.attachments import (
    PIECE,
    AttachmentBody,
    AttachmentLimits,
    attachment_from_data_url,
    read_attachments,
)
from services.gateway.rules.request_body import read_as
from shared.domain.attachment import Attachment
from shared.errors import BadInput

PNG = b"\x89PNG\r\n\x1a\n and so on"


def given(**fields: Any) -> AttachmentBody:
    """One attachment of a body."""
    whole = {"content_type": "image/png", "data": base64.b64encode(PNG).decode(), **fields}
    return read_as(AttachmentBody, whole)


def test_files_are_decoded_in_their_order() -> None:
    """The model is told of them in the order in which they were put in."""
    read = read_attachments(
        [given(filename="a/b\\cat.png"), given(content_type="Audio/OGG; codecs=opus", is_voice=True)],
        AttachmentLimits(),
    )
    assert read == (Attachment("image/png", PNG, "cat.png"), Attachment("audio/ogg", PNG, "", is_voice=True))
    assert read_attachments(None, AttachmentLimits()) == ()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("!!!!", "attachments[1] is not base64"),
        ("QUJ", "attachments[1] is not base64"),
        ("QUJD\vQUJD", "attachments[1] is not base64"),
        ("QUJD\nQUJ", "attachments[1] is not base64"),
        ("QUI=\nQUJD", "attachments[1] is not base64"),
        (" \n", "attachments[1] is empty"),
        ("data:image/png;base64,", "attachments[1] is empty"),
        ("data:image/png,QUJD", "attachments[1] is not base64"),
        ("QUI=QUI=", "attachments[1] is not base64"),
        ("", "attachments[1] is empty"),
        ("Q" * 48, "attachments[1] is larger than 32 bytes"),
        ("Q" * 44, "attachments[1] is larger than 32 bytes"),
        ("grüß", "attachments[1] is not base64"),
        ("Q" * (PIECE - 2) + "==" + "QUJD", "attachments[1] is not base64"),
    ],
)
def test_one_that_can_not_be_taken_is_named(data: str, says: str) -> None:
    """The original left it out without a word, and the agent answered about a picture it never got."""
    with pytest.raises(BadInput, match=re.escape(says)):
        read_attachments([given(), given(data=data)], AttachmentLimits(size=32 if len(data) < 99 else PIECE))


def test_the_limits_themselves_are_taken() -> None:
    """A limit of so many means so many."""
    exact = given(data=base64.b64encode(b"x" * 32).decode())
    assert len(read_attachments([exact, exact], AttachmentLimits(2, 32))) == 2
    with pytest.raises(BadInput, match="at most 2 attachments, and this one has 3"):
        read_attachments([exact] * 3, AttachmentLimits(2, 32))


@pytest.mark.parametrize(
    "wrong",
    [{"content_type": "cat"}, {"content_type": "image/png\n"}, {"filename": "a\nb"}, {"is_voice": "yes"}, {"data": 5}],
)
def test_what_is_no_attachment_at_all_is_refused(wrong: dict[str, Any]) -> None:
    """A name with a line break could pretend to be words of the runtime."""
    with pytest.raises(BadInput, match=next(iter(wrong))):
        given(**wrong)


def test_a_large_file_comes_through_whole() -> None:
    """It is decoded in pieces."""
    whole = bytes(range(256)) * 16_385
    (read,) = read_attachments([given(data=base64.b64encode(whole).decode())], AttachmentLimits())
    assert read.data == whole


def test_base64_may_have_line_breaks_and_be_a_data_url() -> None:
    """Most tools break lines after 76 characters, browsers hand out data: URLs; the original took both."""
    whole = bytes(range(256)) * 20_000
    broken = base64.encodebytes(whole).decode().replace("\n", "\r\n")
    url = "data:image/png;name=x;base64," + base64.b64encode(whole).decode()
    for data in (broken, url, url + "\n"):
        (read,) = read_attachments([given(data=data)], AttachmentLimits())
        assert read == Attachment("image/png", whole)


def test_a_data_url_is_an_attachment() -> None:
    """Clients of other APIs send their images so."""
    url = "data:image/PNG;name=x;base64," + base64.b64encode(PNG).decode()
    assert attachment_from_data_url(url) == Attachment("image/png", PNG)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://example.org/cat.png", "nothing is fetched from elsewhere"),
        ("data:image/png,rawtext", "nothing is fetched"),
        ("data:;base64,QUJD", "nothing is fetched"),
        ("data:image/png;base64,", "messages[0].content[1] is empty"),
        ("data:image/png;base64,Q", "messages[0].content[1] is not base64"),
        ("data:image/png;base64," + "Q" * 64, "messages[0].content[1] is larger than 32 bytes"),
    ],
)
def test_another_url_is_refused(url: str, says: str) -> None:
    """What callers name is never fetched: that is how a server is made to ask its neighbours."""
    with pytest.raises(BadInput, match=re.escape(says)):
        attachment_from_data_url(url, where="messages[0].content[1]", limits=AttachmentLimits(size=32))
