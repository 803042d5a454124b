"""A reply that begins or ends with a silent token is stored, but not delivered."""

import re
from collections.abc import Sequence


def is_silent(reply: str, tokens: Sequence[str]) -> bool:
    """True when the first or the last word of the reply is a silent token; punctuation around it does not matter."""
    for token in tokens:
        word = re.escape(token)
        if token and re.search(rf"\A\W*{word}(?!\w)|(?<!\w){word}\W*\Z", reply):
            return True
    return False
