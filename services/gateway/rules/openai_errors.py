"""Errors in OpenAI's form, as its clients expect them."""

from typing import Any

from shared.errors import BadInput, NotFound

KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", "insufficient_permissions"),
    404: ("invalid_request_error", "not_found"),
    405: ("invalid_request_error", "method_not_allowed"),
    408: ("timeout_error", "processing_timeout"),
    409: ("invalid_request_error", "conflict"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    502: ("server_error", "embedder_failed"),
}
"""Type and code by status; what is not here is the caller's mistake below 500 and ours from there on."""


class BadParameter(BadInput):
    """A field of an OpenAI request can't be taken; ``param`` names it."""

    def __init__(self, message: str, *, param: str | None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class Unknown(NotFound):
    """What a field of an OpenAI request names does not exist."""

    def __init__(self, message: str, *, param: str | None, code: str) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


def openai_error(
    message: str, status: int, *, param: str | None = None, code: str | None = None, **more: Any
) -> dict[str, Any]:
    """The body of an error: ``type`` and ``code`` go by the status unless ``code`` is given.

    ``more`` is of our own and stands beside ``error``, under ``lucyd``.
    """
    kind, usual = KINDS.get(status, ("server_error", None) if status >= 500 else ("invalid_request_error", None))
    body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": param, "code": code or usual}}
    if more:
        body["lucyd"] = more
    return body


def retry_header(status: int) -> dict[str, str]:
    """What clients of OpenAI ask before they repeat a request by themselves: not after a conflict, which stays one, and
    not after a fault of ours or of a run, since the message may have been taken in already."""
    return {"x-should-retry": "false"} if status in (409, 500) else {}
