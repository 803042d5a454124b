"""Text that somebody decides by must read as it is, wherever it is shown."""

_TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that turn the direction of writing (Unicode Standard Annex 9)."""

_CONTROL = tuple(code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t")
_SPELLED = {code: f"\\u{code:04x}" for code in (*_TURNING, *_CONTROL)}


def unhidden(text: str) -> str:
    """``text`` with control characters, and those that turn the direction of writing, spelled out."""
    return text.translate(_SPELLED)
