"""When a run waits for its person's answer, and how to give it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

ASKED = 3
"""Exit code of a command that ends with a question nobody has answered yet."""


def asks(story: Mapping[str, Any]) -> bool:
    """Whether the run of this story waits, and a question of it is open."""
    told = story.get("story")
    entries: Sequence[Any] = told if isinstance(told, list) else ()
    whats = [each.get("what") for each in entries if isinstance(each, dict)]
    return story.get("state") == "waiting" and whats.count("approval_asked") > whats.count("approval_decided")


def how_to_answer(run_id: str, sender: str | None) -> str:
    """For whoever has no prompt to answer at."""
    words = ["lucyd", "send", *(["--sender", sender] if sender else []), "yes"]
    return f"It waits for the answer: `{shlex.join(words)}`, or any other text for no; `lucyd cancel {run_id}` ends it."
