"""Errors as clients of OpenAI read them: by status, ``error.type`` and ``error.code``."""

import json
from typing import Any

import pytest

from services.gateway.edge.bodies import Bodies, TooLarge, TooSlow
from services.gateway.edge.directory import dialect_at
from services.gateway.rules.openai_errors import BadParameter, Unknown
from shared.errors import BadInput, Conflict, Full, NotFound, TryLater


def told(fault: Exception, **more: str) -> tuple[int, dict[str, Any], Any]:
    reply = Bodies("Testbert").error(fault, dialect="openai", **more)
    return reply.status_code, json.loads(bytes(reply.body)), reply.headers


@pytest.mark.parametrize(
    ("fault", "status", "kind", "code"),
    [
        (BadInput("no"), 400, "invalid_request_error", None),
        (NotFound("no"), 404, "invalid_request_error", "not_found"),
        (TooSlow("no"), 408, "timeout_error", "processing_timeout"),
        (Conflict("no"), 409, "invalid_request_error", "conflict"),
        (TooLarge("no"), 413, "invalid_request_error", "request_too_large"),
        (Full("no", after=3), 429, "rate_limit_error", "rate_limit_exceeded"),
        (TryLater("no", after=3), 503, "server_error", None),
    ],
)
def test_each_of_our_errors_has_the_form_of_openai(fault: Exception, status: int, kind: str, code: str | None) -> None:
    """The SDK makes its exception of the status, and fills it from these four fields."""
    got, body, headers = told(fault)
    assert got == status
    assert body == {"error": {"message": "no", "type": kind, "param": None, "code": code}}
    assert headers.get("Retry-After") == ("3" if isinstance(fault, TryLater) else None)


def test_the_field_that_is_wrong_is_named() -> None:
    """A form that shows errors beside its fields needs the name."""
    assert told(BadParameter("one only", param="n"))[1]["error"]["param"] == "n"
    assert (
        told(Unknown("no such model", param="model", code="model_not_found"))[1]["error"]["code"] == "model_not_found"
    )


def test_what_is_told_beyond_the_form_stands_beside_it() -> None:
    """A run that goes on is named, and nothing of OpenAI's own form is changed by it."""
    assert told(NotFound("no"), run_id="7")[1]["lucyd"] == {"run_id": "7"}


def test_a_conflict_is_not_tried_again_by_itself() -> None:
    """The SDK repeats after 409 unless it is told not to; the same key with another body stays a conflict."""
    assert told(Conflict("no"))[2]["x-should-retry"] == "false"


def test_after_a_fault_of_ours_nothing_is_sent_again_by_itself() -> None:
    """The message may have been taken in; without a key a repeat would be a second one."""
    assert Bodies("Testbert").problem("no", 500, dialect="openai").headers["x-should-retry"] == "false"


def test_a_refusal_before_any_operation_has_the_form_of_its_path() -> None:
    """A client of OpenAI that asks for a route that is not there reads its own form."""
    assert dialect_at("/v1/audio/speech") == "openai"
    assert dialect_at("/api/v1/chat") == dialect_at("/v1") == "lucyd"


def test_an_error_for_a_probe_is_a_line_without_the_name() -> None:
    """Probes are read by machines of the house that know nothing of agents."""
    reply = Bodies("Testbert").problem("no", 503, dialect="plain")
    assert json.loads(bytes(reply.body)) == {"error": "no"}
