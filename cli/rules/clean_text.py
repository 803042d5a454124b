"""Text of others on this terminal: what could move the cursor, change a title or fill the clipboard is left out."""

from shared.domain import plain_text

_KEPT = frozenset("\n\t")
_CONTROL = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in _KEPT}


def clean(text: str) -> str:
    """``text`` without control characters; newlines and tabs stay."""
    return text.translate(_CONTROL)


def unhidden(text: str) -> str:
    """The same, with what turns the direction of writing spelled out: what is decided by must read as it is."""
    return plain_text.unhidden(clean(text))


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8; bytes that were no text arrive as half characters, which can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_line(value: object, limit: int = 80) -> str:
    """``value`` as clean text on one line, at most ``limit`` characters, the last of them ``…`` when it was cut."""
    text = " ".join(clean(str(value)).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
