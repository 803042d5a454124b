"""What servers say is told on without their secrets, and without what nobody sees."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.mcp_server import McpServer
from shared.domain.mcp_words import SECRET, told
from shared.domain.plain_text import visible

SECRETS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=6, max_size=40).filter(
    lambda each: not set(each) & set(SECRET)
)


def server(*secrets: str) -> McpServer:
    return McpServer("s", secrets=frozenset(secrets))


@given(SECRETS, st.text("ab\n\t \x1b[0m\u202e", max_size=20), st.booleans())
def test_a_secret_is_in_nothing_that_is_told(secret: str, around: str, ascii: bool) -> None:
    """As it is, as JSON has it written, and parted by what is taken out."""
    parted = f"{secret[:3]}\x1b[0m\u202e{secret[3:]}"
    for text in (secret, json.dumps({"x": secret}, ensure_ascii=ascii), parted):
        said = told(around + text + around, server(secret))
        assert secret not in said
        assert json.dumps(secret, ensure_ascii=ascii)[1:-1] not in said
        assert SECRET[2:] in said, "an order to a terminal may take its beginning along"


@given(SECRETS, st.integers(1, 39))
def test_a_text_that_was_cut_ends_with_no_beginning_of_a_secret(secret: str, length: int) -> None:
    """Half of a key is half of what it takes to guess it."""
    beginning = secret[:length]
    said = told(f"using {beginning}", server(secret), is_cut=True)
    assert said == f"using {SECRET}" or not beginning.strip()
    assert told("using it", server("hunter2-hunter2"), is_cut=True) == "using it"


def test_each_line_of_a_secret_is_one() -> None:
    """A key in PEM is logged line by line."""
    key = "-----BEGIN KEY-----\nMIIabcdef\nab\n-----END KEY-----\n"
    assert told("x MIIabcdef y", server(key)) == f"x {SECRET} y"
    assert told("ab", server(key)) == "ab", "what is so short stands in any text"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"),
        ("\x1bPq secret \x1b\\end", "end"),
        ("\x1b]never ended", "]never ended"),
        ("a\0b\x07c\x7fd", "abcd"),
        ("user\u202egnp.exe\u202c \u2066x\u2069", "usergnp.exe x"),
        ("a\U000e0041\U000e007fb\ufeffc", "abc"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("tab\tand \U0001f469\u200d\U0001f4bb stay", "tab\tand \U0001f469\u200d\U0001f4bb stay"),
    ],
)
def test_what_nobody_sees_is_taken_out_and_lines_stay_lines(text: str, seen: str) -> None:
    """Terminals obey some of it, and models read the rest."""
    assert visible(text) == seen
