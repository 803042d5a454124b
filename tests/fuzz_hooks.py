"""Loaded by schemathesis in a process of its own: it notes every case that was answered, in a file of its folder.

No document can tell the agent's name, so a good request under ``/v1`` is given it: what lies behind is fuzzed, too.
"""

from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import GenerationMode

AGENT = "lucyd"
NOTES = Path("cases.tsv")
_notes = NOTES.open("a", encoding="utf-8", buffering=1)


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
