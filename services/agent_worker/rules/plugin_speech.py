"""What is read of a plugin: its results as text, its faults as sentences that give nothing away."""

import json
from collections.abc import Collection, Mapping
from typing import Any

LONGEST_REASON = 500
NOTHING = "(no output)"
HIDDEN = "[secret]"

_SENTENCES = {
    "not_configured": "'{tool}' is not configured; the operator has to do that",
    "transient": "'{tool}' can't be reached right now",
    "upstream": "the service behind '{tool}' failed",
    "auth_failed": "the service behind '{tool}' refuses the key that it was given",
    "quota_exceeded": "the service behind '{tool}' allows no more right now",
    "empty_output": "'{tool}' had no result",
}

TRIES = 3
PAUSE = 1.0
"""Seconds between them."""


def text_of(result: Any) -> str:
    """A result as a model reads it: text, ``{"text", "attachments"}``, or anything else written out."""
    if result is None:
        return NOTHING
    if isinstance(result, str):
        return result or NOTHING
    if isinstance(result, Mapping) and isinstance(result.get("text"), str):
        paths = result.get("attachments") or ()
        lines = [f"[attachment: {path}]" for path in paths] if isinstance(paths, list | tuple) else []
        return "\n".join([result["text"], *lines]).strip("\n") or NOTHING
    if isinstance(result, Mapping | list | tuple | bool):
        try:
            return json.dumps(result, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):
            return str(result)
    return str(result)


def refusal(tool: str, code: str, message: str) -> str:
    """What a model reads of a fault. Only what a plugin says of the model's own input is passed on."""
    if code == "invalid_input" and message.strip():
        return message.strip()[:LONGEST_REASON]
    return _SENTENCES.get(code, "'{tool}' failed").format(tool=tool)


def may_try_again(code: str, effect: str) -> bool:
    """Whether one more try can do no harm: nothing was done, or doing it twice is as doing it once."""
    return code == "transient" or (code == "upstream" and effect in {"read", "idempotent"})


def without_secrets(text: str, secrets: Collection[str]) -> str:
    """The text, with what is known to be secret taken out."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
