"""Bodies with halves of characters: what is whole stays, what stands alone is replaced."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from services.gateway.rules.whole_characters import MOST, with_whole_characters
from shared.errors import BadInput


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (rb'"a\ud83d"', "a\ufffd"),
        (rb'"\ude00b"', "\ufffdb"),
        (rb'"\ud83d\ude00\ud83d"', "\N{GRINNING FACE}\ufffd"),
        (rb'"\ude00\ud83d\ude00"', "\ufffd\N{GRINNING FACE}"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\N{GRINNING FACE}"),
        (rb'"\ud83dx\ude00"', "\ufffdx\ufffd"),
        (rb'"\\ud83d\ud83d"', "\\ud83d\ufffd"),
        (rb'"\\\ud83d"', "\\\ufffd"),
        (rb'"\ud83d\\ude00"', "\ufffd\\ude00"),
        (b'"a\xed\xa0\xbdb"', "a\ufffdb"),
        (b'\xef\xbb\xbf"a"', "a"),
    ],
)
def test_halves_that_stand_alone_are_replaced(body: bytes, says: str) -> None:
    """An escaped backslash begins nothing, and what belongs together stays together."""
    whole = with_whole_characters(body)
    assert whole is not None
    assert orjson.loads(whole) == says


@pytest.mark.parametrize("body", [b"", b"{", rb'"\ud83d\ude00"', rb'"\\ud83d"', b'"\\n"'])
def test_what_has_none_is_left_to_whoever_reads_it(body: bytes) -> None:
    """It is no JSON for another reason, or is JSON already."""
    assert with_whole_characters(body) is None


@given(some.lists(some.sampled_from(["\\", "\ud83d", "\ude00", "\\u", "d83d", "x", '"', "\N{GRINNING FACE}"])))
def test_it_reads_as_python_does(pieces: list[str]) -> None:
    """The standard library reads halves; with each of them replaced the texts are the same."""
    body = json.dumps("".join(pieces)).encode("ascii")
    python = json.loads(body).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert orjson.loads(with_whole_characters(body) or body) == python


@pytest.mark.parametrize("half", [rb"\ud800", b"\xed\xa0\x80"], ids=["escaped", "raw"])
def test_who_fills_a_body_with_them_is_refused(half: bytes) -> None:
    """Each costs a look, and 16 MB hold three million."""
    with pytest.raises(BadInput, match="too many halves"):
        with_whole_characters(b'"' + half * (MOST + 1) + b'"')
