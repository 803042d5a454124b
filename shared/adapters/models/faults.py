"""A provider's refusals in our words: what to do about them, and a sentence fit for a person.

    429, 5xx, lost connections, broken streams   TryLater, ``after`` from Retry-After
    other statuses                               ModelRejected
    the whole call took too long                 ModelTimeout (``vendor_call`` knows that)

The sentences hold the status and the provider's own short message, never a key, a header or a request body.
"""

from collections.abc import Collection, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

from shared.errors import GiveUp, ModelRejected, TryLater

LONGEST_MESSAGE = 300
"""Characters of the provider's own words; some servers echo the whole request in theirs."""

_NOT_LET_IN = (401, 403)
_OF_CALLER = (*_NOT_LET_IN, 402)
"""Not 404: some routers answer it when none of their models takes images."""

_STATUS_OF_ERROR = {
    # Errors inside a stream come without a status, because 200 was sent long before.
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    # What OpenAI-compatible servers put in ``code``.
    "invalid_api_key": 401,
    "insufficient_quota": 429,
    "model_not_found": 404,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "content_policy_violation": 400,
}


class ErrorInAnswer(Exception):
    """The provider reported an error inside an answer that had begun well; ``error`` is its own object."""

    def __init__(self, error: object) -> None:
        super().__init__("the answer holds an error")
        self.error = error


def fault_of_status(
    status: int, body: object, headers: Mapping[str, str], *, secrets: Collection[str] = (), refusal: str = ""
) -> TryLater | GiveUp:
    """What a refused request means; ``secrets`` are blotted out, should the provider have repeated one.

    ``refusal`` begins the sentence when the caller is not let in: whose key it is and where it stands.
    """
    said = short_message(body, secrets=secrets)
    answered = f"{refusal} ({status})" if refusal and status in _NOT_LET_IN else f"The model provider answered {status}"
    sentence = answered + (f": {said}" if said else ".")
    if status == 429 or status >= 500:
        return TryLater(sentence, after=retry_after(headers))
    return ModelRejected(sentence, of_content=status not in _OF_CALLER)


def fault_of_error(error: object, *, secrets: Collection[str] = (), refusal: str = "") -> TryLater | GiveUp:
    """What an error object inside a 200 answer means; one that nobody knows is taken for passing, as a 500."""
    return fault_of_status(_status_of_error(error), {"error": error}, {}, secrets=secrets, refusal=refusal)


def lost_connection(cause: BaseException) -> TryLater:
    """The provider could not be reached, or the connection broke. Only the kind is told: texts hold addresses."""
    return TryLater(f"The connection to the model provider failed ({type(cause).__name__}).")


def broken_answer(what: str) -> TryLater:
    """An answer that is not whole; nothing of it may be used."""
    return TryLater(f"The model provider's answer broke off: {what}.")


def short_message(body: object, *, secrets: Collection[str] = ()) -> str:
    """The provider's own words on one line, cut and without secrets; empty when none are where we know to look."""
    words = " ".join(_message_in(body).split())
    for secret in secrets:
        if secret:
            words = words.replace(secret, "***")
    return words if len(words) <= LONGEST_MESSAGE else words[: LONGEST_MESSAGE - 1] + "…"


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds the provider asks us to wait; 0 when it does not say. Header names in lower case."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None:
        return seconds
    try:
        # A date is measured against the provider's own clock, so that ours may be wrong.
        wait = parsedate_to_datetime(said or "") - parsedate_to_datetime(headers.get("date") or "")
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, wait.total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if isfinite(value) else None


def _message_in(body: object) -> str:
    match body:
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)} | {"detail": str(text)}:
            return text
        case {"detail": [{"msg": str(text)}, *_]}:
            return text
        case str() if not body.lstrip().startswith("<"):
            return body
    return ""


def _status_of_error(error: object) -> int:
    if not isinstance(error, Mapping):
        return 500
    for key in ("code", "status", "type"):
        status = _as_status(error.get(key))
        if status is not None:
            return status
    return 500


def _as_status(value: Any) -> int | None:
    if isinstance(value, str):
        if value in _STATUS_OF_ERROR:
            return _STATUS_OF_ERROR[value]
        value = int(value) if value.isdecimal() else None
    return value if isinstance(value, int) and 400 <= value < 600 else None
