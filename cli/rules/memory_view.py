"""What was found in memory, as text for whoever asked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.rules.clean_text import clean

NOTHING = "Nothing was found. Try other words."
_KINDS = (
    ("facts", "Known facts"),
    ("episodes", "Conversations"),
    ("passages", "Files of the workspace"),
    ("commitments", "Open commitments"),
)


def memory_text(found: Mapping[str, Any]) -> str:
    """A section for each kind of which there is something."""
    sections = []
    for kind, title in _KINDS:
        if lines := list(_lines(kind, found.get(kind) or ())):
            sections.append(f"[{title}]\n" + "\n".join(lines))
    return clean("\n\n".join(sections)) or NOTHING


def _lines(kind: str, found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in found:
        match kind:
            case "facts":
                yield f"{_plain(each['entity'])} \N{EM DASH} {_plain(each['attribute'])}: {each['value']}"
            case "episodes":
                yield f"{str(each['at'])[:10]}: {each['summary']}"
            case "passages":
                yield f"{each['path']}:{each['start_line']}-{each['end_line']}\n{each['text']}"
            case _:
                by = f" (by {str(each['deadline'])[:10]})" if each.get("deadline") else ""
                yield f"#{each['id']} {each['who']}: {each['what']}{by}"


def _plain(name: object) -> str:
    return str(name).replace("_", " ")
