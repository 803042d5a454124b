"""What a status other than 200 means to the person in front."""

import json
from collections.abc import Mapping
from typing import Any

from cli.rules.clean_text import one_line

START_IT = "start it with `make run` or `lucyd up`"


BUSY = "the conversation is busy"
TOO_OFTEN = "rate limit exceeded"


def not_there(url: str) -> str:
    """Nobody answers at the gateway's address."""
    return f"Lucyd does not answer at {url}; {START_IT}, or name another address with --url."


def refusal(status: int, text: str, url: str, *, retry_after: str | None = None, token_sent: bool = True) -> str:
    """One sentence about an answer that is not the one hoped for."""
    body = error_body(text)
    said = one_line(body.get("error") or "", 300).rstrip(".")
    if status == 401:
        sent = "refused the token" if token_sent else "wants a token, and none was found"
        return f"The gateway at {url} {sent}; set LUCYD_HTTP_TOKEN to what it was started with."
    if not said:
        return f"What answers at {url} is not Lucyd's gateway, or a broken one (HTTP {status})."
    if status == 409 and said == BUSY:
        return "The conversation is busy with an earlier message; this one was not taken."
    if status == 408:
        run = one_line(body.get("run_id") or "")
        told = f" ({run})" if run else ""
        return f"The gateway stopped waiting: the run{told} goes on, and `lucyd history` will show its reply."
    if status == 429 and said == TOO_OFTEN:
        return f"The gateway was asked too often, and this was not taken; try again{_in(retry_after)}."
    if status in {429, 503}:
        return f"The gateway can't take it now: {said}; try again{_in(retry_after)}."
    if status >= 500:
        return f"The gateway failed: {said}; its log tells more."
    return f"The gateway refused it: {said}."


def _in(retry_after: str | None) -> str:
    return f" in {retry_after} s" if retry_after and retry_after.isdecimal() else " later"


def error_body(text: str) -> Mapping[str, Any]:
    """The JSON object of an answer; an empty one for everything else."""
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
