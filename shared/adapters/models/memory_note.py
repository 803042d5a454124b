"""Facts as the offline provider takes them apart and keeps them in ``MEMORY.md``. Pure."""

import re
from collections.abc import Collection
from typing import Any

NOTES = "MEMORY.md"
"""Where notes go when there is no memory tool; relative to the workspace."""

_OF_MINE = re.compile(r"my\s+(?P<attribute>.+?)\s+(?:is|are|was)\s+(?P<value>.+)", re.IGNORECASE)
_OF_ANOTHER = re.compile(
    r"(?P<entity>.+?)['\u2019]s\s+(?P<attribute>.+?)\s+(?:is|are|was)\s+(?P<value>.+)", re.IGNORECASE
)
_THE_OF = re.compile(r"the\s+(?P<attribute>.+?)\s+of\s+(?P<entity>.+?)\s+(?:is|are|was)\s+(?P<value>.+)", re.IGNORECASE)
_FORMS = (_OF_MINE, _OF_ANOTHER, _THE_OF)

_NUMBERED = re.compile(r"\s*\d+\t(.*)")
"""A line as the tool ``read`` shows it."""

_ABSENT = re.compile(r"not found|no such|does not exist|doesn't exist", re.IGNORECASE)
_WORD = re.compile(r"\w{2,}")
_EVERYTHING = ("me", "myself", "everything", "anything")


def split_fact(fact: str) -> tuple[str, str, str]:
    """A fact as (entity, attribute, value). What fits no form is a note of its own and replaces no other."""
    for form in _FORMS:
        if found := form.fullmatch(fact):
            parts = found.groupdict()
            return parts.get("entity") or "user", parts["attribute"], parts["value"]
    return "user", f"note: {' '.join(fact.split()[:6])}", fact


def write_note(fact: str, shown: str, *, failed: bool, offered: Collection[str]) -> tuple[str, dict[str, Any]] | None:
    """The call that adds ``- fact`` to the notes, of which ``read`` has shown ``shown``; ``None`` when none can.

    A file that is absent or empty is written; one with lines is edited behind the last line seen, so that whatever was
    not shown stays.
    """
    if failed and not _ABSENT.search(shown):
        return None
    lines = [] if failed else _lines(shown)
    if not any(line.strip() for line in lines):
        if "write" in offered:
            return "write", {"file_path": NOTES, "content": f"# Memory\n\n- {fact}\n"}
        return None
    content = "\n".join(lines)
    if "edit" in offered:
        anchor = _unique_ending(lines, content)
        return "edit", {"file_path": NOTES, "old_string": anchor, "new_string": f"{anchor}\n- {fact}"}
    if len(lines) == len(shown.splitlines()):
        return "write", {"file_path": NOTES, "content": f"{content}\n- {fact}\n"}
    return None  # only part of the file was shown, and writing would lose the rest


def notes_about(topic: str, shown: str) -> list[str]:
    """The lines of the notes that share a word with the topic; all of them, when it is the person who asks."""
    lines = [line.strip() for line in (_lines(shown) or shown.splitlines())]
    lines = [line for line in lines if line and not line.startswith("#")]
    if topic.lower() in _EVERYTHING:
        return lines
    words = {word.casefold() for word in _WORD.findall(topic)} - {"my", "the", "of"}
    return [line for line in lines if words & {word.casefold() for word in _WORD.findall(line)}]


def _lines(shown: str) -> list[str]:
    """The file's lines without their numbers; what has no number is the tool's own remark."""
    found = (_NUMBERED.fullmatch(line) for line in shown.splitlines())
    return [line[1] for line in found if line]


def _unique_ending(lines: list[str], content: str) -> str:
    kept = list(lines)
    while not kept[-1].strip():
        kept.pop()
    body = "\n".join(kept)
    for size in range(1, len(kept)):
        ending = "\n".join(kept[-size:])
        if ending.strip() and content.count(ending) == 1:
            return ending
    return body
