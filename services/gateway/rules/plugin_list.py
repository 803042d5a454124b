"""What the workers tell of their plugins, as one list."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def plugin_list(processes: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Each plugin by its name: as a worker where it failed tells of it, if there is one, else as any of them does.

    ``loaded_by`` and ``failed_in`` count workers; ``configured`` and ``backend`` are the original's fields.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for process in processes:
        for plugin in _told(process.get("plugins", "")):
            found.setdefault(str(plugin["name"]), []).append(plugin)
    return [_one(name, found[name]) for name in sorted(found)]


def _one(name: str, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    failed = [each for each in told if each.get("state") != "loaded"]
    shown = (failed or told)[0]
    return {
        "name": name,
        "configured": not failed,
        "backend": "",
        "state": "failed" if failed else "loaded",
        "reason": str(shown.get("reason", "")),
        "tools": _words(shown.get("tools")),
        "preprocessors": _words(shown.get("preprocessors")),
        "notes": _words(shown.get("notes")),
        "loaded_by": len(told) - len(failed),
        "failed_in": len(failed),
    }


def _told(text: str) -> list[Mapping[str, Any]]:
    """A worker of other code may tell it in another form, or not at all."""
    try:
        read = json.loads(text) if text else []
    except ValueError:
        return []
    return [each for each in read if isinstance(each, dict) and "name" in each] if isinstance(read, list) else []


def _words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []
