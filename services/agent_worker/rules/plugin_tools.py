"""What a plugin declares, read with care: it was written by somebody else, perhaps for another version."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from shared.domain.effect import EffectClass, ToolSpec

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Providers refuse a whole request for one tool with another name."""

LONGEST_DESCRIPTION = 20_000
LONGEST_SCHEMA = 50_000
DECLARED = tuple(name for name in get_args(EffectClass) if name != "local")


class BadPlugin(Exception):
    """Why a plugin can't be used, in one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool as its plugin declares it. ``max_output`` and ``timeout`` 0: as for every tool.

    ``sends``: it may give back a file that goes to whom its parameter ``send_to`` names.
    """

    spec: ToolSpec
    function: Callable[..., Any]
    max_output: int = 0
    talkers: frozenset[str] | None = None
    cpu_heavy: bool = False
    timeout: float = 0.0
    sends: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredPreprocessor:
    """What is run on messages with attachments. A ``critical`` one that fails fails its run; ``content_types`` are
    beginnings, without any it reads all."""

    name: str
    function: Callable[..., Any]
    critical: bool = False
    fallback_text: str = ""
    content_types: tuple[str, ...] = ()


def declared_tools(tools: Any) -> list[DeclaredTool]:
    """The tools of a ``TOOLS`` list: dictionaries, or objects with the same names. Raises ``BadPlugin``."""
    if not isinstance(tools, list | tuple):
        raise BadPlugin(f"TOOLS must be a list, not {type(tools).__name__}")
    found = [_tool(entry, position) for position, entry in enumerate(tools)]
    names = [tool.spec.name for tool in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadPlugin(f"TOOLS declares {', '.join(twice)} twice")
    return found


def declared_preprocessors(entries: Any) -> list[DeclaredPreprocessor]:
    """Those of a ``PREPROCESSORS`` list: dictionaries, tuples, or objects with the same names. Raises ``BadPlugin``."""
    if not isinstance(entries, list | tuple):
        raise BadPlugin(f"PREPROCESSORS must be a list, not {type(entries).__name__}")
    return [_preprocessor(entry, position) for position, entry in enumerate(entries)]


def _tool(entry: Any, position: int) -> DeclaredTool:
    where = f"TOOLS[{position}]"
    name = _of(entry, "name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadPlugin(f"{where} needs a name of up to 64 letters, digits, _ and -")
    description, function, schema = _of(entry, "description"), _of(entry, "function"), _of(entry, "input_schema")
    if not isinstance(description, str) or not 0 < len(description) <= LONGEST_DESCRIPTION:
        raise BadPlugin(f"{where} ({name}) needs a description")
    if not callable(function):
        raise BadPlugin(f"{where} ({name}) needs a function that can be called")
    effect: EffectClass = _of(entry, "effect") or "once"
    if effect not in DECLARED:
        raise BadPlugin(f"{where} ({name}): effect must be one of {', '.join(DECLARED)}")
    heavy = bool(_of(entry, "cpu_heavy") or _of(entry, "heavy"))
    sends = _of(entry, "sends") is True
    if sends and heavy:
        raise BadPlugin(f"{where} ({name}): what runs in a process of its own sends nothing")
    return DeclaredTool(
        ToolSpec(name, description, _schema(schema, f"{where} ({name})"), effect),
        function,
        max_output=int(_number(entry, "max_output", f"{where} ({name})")),
        talkers=_talkers(_of(entry, "talkers"), f"{where} ({name})"),
        cpu_heavy=heavy,
        timeout=_number(entry, "timeout", f"{where} ({name})"),
        sends=sends,
    )


def _schema(schema: Any, where: str) -> Mapping[str, Any]:
    try:
        written = json.dumps(schema, allow_nan=False)
        read = json.loads(written)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadPlugin(f"{where}: input_schema is not JSON") from error
    if not isinstance(read, dict) or read.get("type") != "object" or len(written) > LONGEST_SCHEMA:
        raise BadPlugin(f'{where}: input_schema must be a JSON schema with "type": "object"')
    properties, required = read.setdefault("properties", {}), read.get("required", [])
    if not isinstance(properties, dict) or not all(isinstance(each, dict) for each in properties.values()):
        raise BadPlugin(f"{where}: properties of input_schema must be an object of schemas")
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        raise BadPlugin(f"{where}: required of input_schema must be a list of names")
    return read


def _talkers(value: Any, where: str) -> frozenset[str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise BadPlugin(f"{where}: talkers must be a set of names")
    return frozenset(value)


def _number(entry: Any, key: str, where: str) -> float:
    value = _of(entry, key)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise BadPlugin(f"{where}: {key} must be a number, 0 or more")
    return float(value)


def _preprocessor(entry: Any, position: int) -> DeclaredPreprocessor:
    where = f"PREPROCESSORS[{position}]"
    if isinstance(entry, tuple | list):
        entry = dict(zip(("name", "fn", "critical", "fallback_text"), entry, strict=False))
    name, function = _of(entry, "name"), _of(entry, "fn")
    if not isinstance(name, str) or not name or not callable(function):
        raise BadPlugin(f"{where} needs a name and a function fn")
    fallback = _of(entry, "fallback_text") or ""
    if not isinstance(fallback, str):
        raise BadPlugin(f"{where} ({name}): fallback_text must be text")
    types = _of(entry, "content_types") or ()
    if isinstance(types, str) or not all(isinstance(each, str) for each in types):
        raise BadPlugin(f"{where} ({name}): content_types must be a list of types")
    return DeclaredPreprocessor(name, function, bool(_of(entry, "critical")), fallback, tuple(types))


def _of(entry: Any, key: str) -> Any:
    return entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)
