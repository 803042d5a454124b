"""Reads a ``SKILL.md``: front matter between two lines ``---``, and below it what the agent is told."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from shared.domain.skill import Skill

LONGEST_FRONT = 16_384
LONGEST_NAME = 100
LONGEST_DESCRIPTION = 1024
MOST_TAGS = 50

_FRONT = re.compile(r"---[ \t]*\n(?P<front>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"(?P<key>[A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?$")
_TOOL = re.compile(r"[^\s,(]+(?:\([^)]*\))?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FOLDED, _KEPT = {">", ">-", ">+"}, {"|", "|-", "|+"}


class BadSkill(Exception):
    """A skill that can't be used; the text says why, in words for the operator."""


def read_skill(raw: bytes, *, folder_name: str, place: str, folder: str = "") -> Skill:
    """The skill in a file's bytes. Raises ``BadSkill``.

    What is not known of the front matter is passed over, for others write skills too. Where nothing is said of what
    the skill is for, its first line of text says it.
    """
    text = _text(raw)
    front, body = _split(text)
    said = _fields(front)
    name = _one_line(said.get("name")) or _one_line(folder_name)
    if not name or len(name) > LONGEST_NAME:
        raise BadSkill(f"its name must have 1 to {LONGEST_NAME} characters")
    if not body.strip():
        raise BadSkill("it says nothing below its front matter")
    description = _one_line(said.get("description")) or _first_line(body)
    return Skill(
        name=name,
        description=description[:LONGEST_DESCRIPTION].rstrip(),
        body=body.strip(),
        place=place,
        folder=folder,
        tags=_tags(said),
        allowed_tools=_allowed_tools(said),
        version=_one_line(said.get("version")),
        author=_one_line(said.get("author")),
    )


def _text(raw: bytes) -> str:
    if b"\0" in raw:
        raise BadSkill("it is a binary file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSkill(f"it is not UTF-8 (byte {error.start})") from error
    if not text.strip():
        raise BadSkill("it is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split(text: str) -> tuple[str, str]:
    if not re.match(r"---[ \t]*(?:\n|\Z)", text):
        return "", text
    found = _FRONT.match(text)
    if found is None:
        raise BadSkill("its front matter has no closing line ---")
    if len(found["front"]) > LONGEST_FRONT:
        raise BadSkill(f"its front matter has more than {LONGEST_FRONT} characters")
    return found["front"], text[found.end() :]


def _fields(front: str) -> Mapping[str, Any]:
    """By YAML, or line by line where that is none, as the original reads all of them."""
    try:
        said = yaml.safe_load(front)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # A colon in a description is what people write; some tags and dates make the library itself stumble.
        said = _lenient(front)
    if said is None:
        return {}
    if not isinstance(said, dict):
        said = _lenient(front)
        if not said:
            raise BadSkill("its front matter is not made of lines like `name: value`")
    return {str(key): value for key, value in said.items()}


def _lenient(front: str) -> dict[str, Any]:
    """``key: value`` lines; ``>`` and ``|`` take the indented lines below, and so does a list of ``- item``."""
    said: dict[str, Any] = {}
    key, style, lines = "", "", list[str]()
    for line in [*front.split("\n"), "end:"]:
        found = _KEY.match(line)
        if found is None:
            lines += [line.strip()] if line[:1] in {" ", "\t", "-"} else []
            continue
        if key:
            said[key] = _value(style, lines)
        key, style, lines = found["key"], (found["value"] or "").strip(), []
    return said


def _value(style: str, lines: list[str]) -> Any:
    if style in _KEPT:
        return "\n".join(lines).strip()
    items = [line[2:].strip() for line in lines if line.startswith("- ")]
    if not style and items:
        return [_unquoted(item) for item in items]
    if style in _FOLDED:
        style = ""
    if style.startswith("[") and style.endswith("]"):
        return [_unquoted(item.strip()) for item in style[1:-1].split(",") if item.strip()]
    return _unquoted(" ".join([style, *lines]).strip())


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _one_line(value: Any) -> str:
    """A plain value as one line of text; empty for what is none."""
    if not isinstance(value, str | int | float):
        return ""
    return " ".join(_CONTROL.sub(" ", str(value)).split())


def _first_line(body: str) -> str:
    lines = (_one_line(line.strip().lstrip("#")) for line in body.split("\n"))
    return next((line for line in lines if line), "")


def _tags(said: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of the front matter, or of its ``metadata``, where the open form keeps what it does not name itself."""
    metadata = said.get("metadata")
    value = said.get("tags") or (metadata.get("tags") if isinstance(metadata, dict) else None)
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(tag for tag in map(_one_line, value) if tag))[:MOST_TAGS]


def _allowed_tools(said: Mapping[str, Any]) -> tuple[str, ...] | None:
    """A list, or names between spaces or commas. An empty list allows none; no value says nothing."""
    value = next((said[key] for key in ("allowedTools", "allowed-tools", "allowed_tools") if key in said), None)
    if isinstance(value, list):
        return tuple(dict.fromkeys(name for name in map(_one_line, value) if name))
    if isinstance(value, str) and value.strip():
        return tuple(dict.fromkeys(_TOOL.findall(value)))
    return None
