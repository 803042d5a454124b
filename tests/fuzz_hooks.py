"""Loaded by schemathesis in a process of its own: it notes every case that was answered, in a file of its folder.

No document can tell the agent's name, so a good request under ``/v1`` is given it: what lies behind is fuzzed, too.
Nor can it tell that the images of several messages are counted together: nobody is asked with too many of them.
"""

from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import GenerationMode

AGENT = "lucyd"
IMAGES = frozenset({"image_url", "input_image"})
MOST_IMAGES = 10
NOTES = Path("cases.tsv")
_notes = NOTES.open("a", encoding="utf-8", buffering=1)


@schemathesis.hook
def filter_body(_context: Any, body: Any) -> bool:
    """Not too many images."""
    return _images_in(body) <= MOST_IMAGES


def _images_in(value: Any) -> int:
    match value:
        case {"type": str(kind)} if kind in IMAGES:
            return 1
        case dict():
            return sum(map(_images_in, value.values()))
        case list():
            return sum(map(_images_in, value))
    return 0


@schemathesis.hook
def before_call(_context: Any, case: Any, _options: Any) -> None:
    """A good one is meant for the agent."""
    is_good = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if is_good and isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
        case.body["model"] = AGENT


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    """One line for each: the operation, and the status."""
    _notes.write(f"{case.operation.label}\t{response.status_code}\n")
