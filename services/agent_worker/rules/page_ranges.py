"""Pages as people write them: ``1-5,7``."""

import re

from shared.errors import BadInput

MOST_RANGES = 100
_RANGE = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6})?)?")


def page_ranges(text: str) -> list[tuple[int, int | None]]:
    """First and last page of each range, counted from 1; a last page of ``None`` is the end of the document.

    Raises ``BadInput`` with a sentence.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_RANGES:
        raise BadInput(f"pages names more than {MOST_RANGES} ranges")
    ranges = []
    for part in parts:
        found = _RANGE.fullmatch(part)
        if found is None:
            raise BadInput(f"pages must be like 1-5,7 (or 3- for all from there), not {part[:40]!r}")
        first = int(found[1])
        last = first if "-" not in part else int(found[2]) if found[2] else None
        if first < 1 or (last is not None and last < first):
            raise BadInput(f"pages count from 1 upwards, which {part[:40]!r} does not")
        ranges.append((first, last))
    return ranges


def chosen(ranges: list[tuple[int, int | None]], count: int) -> list[int]:
    """The pages of a document with ``count`` pages, counted from 1, each once, in the order they were named."""
    found = (page for first, last in ranges for page in range(first, min(last or count, count) + 1))
    return list(dict.fromkeys(found))
