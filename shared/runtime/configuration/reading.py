"""From a TOML table to a frozen section, by the types that the section declares.

What is asked of a value stands in one place, its declaration; the sentence for the operator is made from the same
declaration, so the two can't part.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from shared.runtime.configuration.findings import Findings

Table = Mapping[str, Any]
Section = TypeVar("Section")

_SECRET = re.compile(r"(^|[._])(token|key|secrets?|passwords?|passwd|credentials?)(_env)?$", re.IGNORECASE)
_SHOWN_CHARACTERS = 60


class Mismatch(Exception):
    """The value is not what was declared."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a table comes from. ``name`` is how the file is called in sentences; relative paths begin at ``folder``.

    ``spoken`` gives the path that the operator wrote for a value that was read under another one.
    """

    name: str
    folder: Path
    home: Path
    findings: Findings
    spoken: Mapping[str, str] = field(default_factory=dict)

    def path(self, text: str) -> Path:
        """Expand ``~`` and make a relative path absolute."""
        return (self.folder / expanded(text, self.home)).absolute()

    def refuse(self, key: str, wanted: str, value: object) -> None:
        """Say that ``key`` must be ``wanted``, and what is there instead unless it may be a secret."""
        spoken = self.spoken.get(key, key)
        self.findings.error(f"{self.name}: {spoken} must be {wanted}, not {shown(spoken, value)}")

    def unknown(self, key: str) -> None:
        """Note a key without meaning."""
        self.findings.unknown(f"{self.name}: {self.spoken.get(key, key)}")


def expanded(text: str, home: Path) -> Path:
    """``~`` is ``home``; everything else stays."""
    if text == "~":
        return home
    return home / text[2:] if text.startswith("~/") else Path(text)


def shown(key: str, value: object) -> str:
    """A value as it may stand in a message: short, and never what looks like a secret."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "this list" if value else "an empty list"
    if not isinstance(value, str):
        return str(value) if isinstance(value, int | Decimal) and not _SECRET.search(key) else "what stands there"
    if _SECRET.search(key) or ("://" in value and "@" in value):
        return "what stands there"
    return '"' + value[:_SHOWN_CHARACTERS] + ("..." if len(value) > _SHOWN_CHARACTERS else "") + '"'


def read_section(cls: type[Section], table: Any, at: str, source: Source) -> Section:
    """Make a section of ``table``; what does not fit is reported and keeps its default. ``at``: its path."""
    if not isinstance(table, dict):
        source.refuse(at, f"a section ([{at}])", table)
        return cls()
    declared = _declared(cls)
    values = {}
    for key, raw in table.items():
        path = f"{at}.{key}" if at else key
        if key not in declared:
            source.unknown(path)
            continue
        try:
            values[key] = _value(declared[key], raw, path, source)
        except Mismatch:
            source.refuse(path, wanted(declared[key]), raw)
    return cls(**values)


def wanted(hint: Any) -> str:
    """What a value of this declaration must be, in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return wanted(arguments[0]) + "".join(rule.phrase for rule in arguments[1:])
    if origin is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in arguments)
    if origin is tuple:
        return f"a list of {_plural(arguments[0])}"
    if origin is Mapping:
        return "a section"
    if origin in {Union, UnionType}:
        return wanted(arguments[0])
    return _SCALARS[hint].words


def _plural(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        base, *rules = get_args(hint)
        return f"{_plural(base)}, each{''.join(rule.phrase for rule in rules)}"
    return _SCALARS[hint].plural


def _value(hint: Any, raw: Any, path: str, source: Source) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return read_section(hint, raw, path, source)
    if origin is Mapping:
        return _mapping(arguments[1], raw, path, source)
    if origin is tuple:
        return _list(arguments[0], raw, path, source)
    if origin in {Union, UnionType}:
        # Empty text is how older files say "the usual place".
        return (
            None if raw == "" else _value(next(each for each in arguments if each is not NoneType), raw, path, source)
        )
    if origin is Annotated:
        return _ruled(arguments, raw, path, source)
    if origin is Literal:
        return _choice(arguments, raw)
    if hint is Path:
        return source.path(_filled(raw))
    return _SCALARS[hint].convert(raw)


def _mapping(hint: Any, raw: Any, path: str, source: Source) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Mismatch
    values = {}
    for key, each in raw.items():
        inner = f"{path}.{key}"
        try:
            values[key] = _value(hint, each, inner, source)
        except Mismatch:
            source.refuse(inner, wanted(hint), each)
    return values


def _list(hint: Any, raw: Any, path: str, source: Source) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise Mismatch
    return tuple(_value(hint, each, path, source) for each in raw)


def _ruled(arguments: tuple[Any, ...], raw: Any, path: str, source: Source) -> Any:
    value = _value(arguments[0], raw, path, source)
    if not all(rule.allows(value) for rule in arguments[1:]):
        raise Mismatch
    return value


def _choice(choices: tuple[Any, ...], raw: Any) -> Any:
    if isinstance(raw, str) and raw in choices:
        return raw
    raise Mismatch


def _flag(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    raise Mismatch


def _whole(raw: Any) -> int:
    # bool is an int in Python, and "port = true" is a slip.
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    raise Mismatch


def _exact(raw: Any) -> Decimal:
    if isinstance(raw, int | Decimal) and not isinstance(raw, bool):
        value = Decimal(raw)
        if value.is_finite():
            return value
    raise Mismatch


def _number(raw: Any) -> float:
    return float(_exact(raw))


def _text(raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    raise Mismatch


def _filled(raw: Any) -> str:
    if isinstance(raw, str) and raw.strip() and "\0" not in raw:
        return raw
    raise Mismatch


@dataclass(frozen=True, slots=True)
class _Scalar:
    words: str
    plural: str
    convert: Callable[[Any], Any]


_SCALARS: Mapping[Any, _Scalar] = {
    bool: _Scalar("true or false", "true or false", _flag),
    int: _Scalar("a whole number", "whole numbers", _whole),
    float: _Scalar("a number", "numbers", _number),
    Decimal: _Scalar("a number", "numbers", _exact),
    str: _Scalar("text in quotes", "texts in quotes", _text),
    Path: _Scalar("a path in quotes", "paths in quotes", _text),
}


def _declared(cls: Any) -> Mapping[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {each.name: hints[each.name] for each in fields(cls)}


def given(table: Table, *path: str) -> bool:
    """Whether the file says anything at ``path``."""
    here: Any = table
    for key in path:
        if not isinstance(here, dict) or key not in here:
            return False
        here = here[key]
    return True
