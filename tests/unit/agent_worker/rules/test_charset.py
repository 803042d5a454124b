"""The letters of a page."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.charset import decoded

GREETING = "Grüße, 世界"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (GREETING.encode(), "text/html", GREETING),
        (GREETING.encode(), "text/html; charset=UTF-8", GREETING),
        ("Grüße €".encode("cp1252"), "text/html", "Grüße €"),
        ("Grüße €".encode("cp1252"), "text/html; charset=iso-8859-1", "Grüße €"),
        ("Grüße €".encode("iso8859_15"), 'text/plain; format=flowed; Charset="ISO-8859-15"', "Grüße €"),
        ("世界".encode("cp932"), "text/html; charset=Shift_JIS", "世界"),
        (b"<html><meta charset='gbk'>" + "世界".encode("gb18030"), "text/html", "<html><meta charset='gbk'>世界"),
        (b'<?xml encoding="koi8-r"?>' + "Мир".encode("koi8_r"), "text/xml", '<?xml encoding="koi8-r"?>Мир'),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">' + "Мир".encode("cp1251"),
            "text/html",
            '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">Мир',
        ),
        (codecs.BOM_UTF8 + b"x", "text/html; charset=latin1", "x"),
        (codecs.BOM_UTF16_LE + "世".encode("utf-16-le"), "", "世"),
        (codecs.BOM_UTF16_BE + "世".encode("utf-16-be"), "", "世"),
        (GREETING.encode()[:-1], "text/html", "Grüße, 世\ufffd"),
        (b"a\0b\0", "text/plain", "ab"),
        (b"\xff\xfe\xff", "text/plain; charset=utf-8", "\ufffd"),
        (b"x", "text/html; charset=no-such-thing", "x"),
        (b"<meta charset=utf-16>x\xc3\xa9", "text/html", "<meta charset=utf-16>xé"),
        (b"", "", ""),
    ],
)  # fmt: skip
def test_letters_are_read_as_browsers_read_them(body: bytes, content_type: str, text: str) -> None:
    """A mark first, then the server, then the page, then the look of it."""
    assert decoded(body, content_type) == text


@pytest.mark.parametrize(
    "codec", ["zlib", "base64", "rot13", "idna", "punycode", "unicode_escape", "utf-7", "bz2", "hex"]
)
def test_codecs_that_are_no_letters_are_not_used(codec: str) -> None:
    """Python knows some that turn a few bytes into many, or take the square of their time."""
    assert decoded(b"+AGE-\\x41 eJw", f"text/html; charset={codec}") == "+AGE-\\x41 eJw"


@given(st.binary(max_size=200), st.text(max_size=60))
def test_any_bytes_are_some_text(body: bytes, content_type: str) -> None:
    """Nothing breaks it."""
    assert "\0" not in decoded(body, content_type)
