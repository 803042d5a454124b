"""The line under a reply: what it cost, how long it took, who answered."""

from collections.abc import Mapping
from typing import Any

from cli.rules.amounts import count, duration, money, number, whole
from cli.rules.clean_text import one_line


def has_bill(outcome: Mapping[str, Any]) -> bool:
    """Whether anything was bought."""
    tokens = outcome.get("tokens")
    counted = tokens.values() if isinstance(tokens, Mapping) else ()
    return number(outcome.get("cost")) > 0 or any(whole(each) for each in counted)


def account_line(outcome: Mapping[str, Any], seconds: float) -> str:
    """Cost, tokens, model, turns and seconds of a finished run on one line; what the gateway leaves out is left out."""
    parts = []
    if "cost" in outcome:
        parts.append(money(outcome["cost"], outcome.get("currency")))
    tokens = outcome.get("tokens")
    if isinstance(tokens, Mapping):
        read = sum(whole(tokens.get(kind)) for kind in ("input", "cache_read", "cache_write"))
        cached = f" ({count(tokens['cache_read'])} cached)" if whole(tokens.get("cache_read")) else ""
        parts.append(f"{count(read)} tokens in{cached}, {count(tokens.get('output'))} out")
    if outcome.get("model"):
        parts.append(one_line(outcome["model"], 48))
    if (turns := whole(outcome.get("turns"))) > 1:
        parts.append(f"{turns} turns")
    parts.append(duration(seconds))
    return " · ".join(parts)
