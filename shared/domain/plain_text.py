"""Text that somebody decides by must read as it is, wherever it is shown."""

import re

_TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that turn the direction of writing (Unicode Standard Annex 9)."""

_CONTROL = tuple(code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t")
_SPELLED = {code: f"\\u{code:04x}" for code in (*_TURNING, *_CONTROL)}


def unhidden(text: str) -> str:
    """``text`` with control characters, and those that turn the direction of writing, spelled out."""
    return text.translate(_SPELLED)


# What an order holds ends where the next one begins: what this costs grows with the text, and not with its square.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\\\|\x9c)"
)
_LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")
_TAGS = "\U000e0000-\U000e007f"
_UNSEEN = re.compile(f"[{''.join(map(chr, (*_CONTROL, *_TURNING)))}\x7f{_TAGS}\ufeff]")


def visible(text: str) -> str:
    """``text`` of others without what nobody sees and something obeys: orders to terminals, control characters, those
    that turn the direction of writing, and tags. Line breaks, of whatever kind, and tabs stay."""
    return _UNSEEN.sub("", _LINE_ENDS.sub("\n", _ESCAPE.sub("", text)))
