"""What a refusal means, and what a person may read of it."""

import pytest

from shared.adapters.models.faults import fault_of_error, fault_of_status, retry_after, short_message
from shared.adapters.models.vendor_call import refusal_of, secrets_of
from shared.domain.provider import ModelSpec
from shared.errors import ModelRejected, TryLater


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "inf"}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "too\n many"}}, "too many"),
        ({"error": "plain"}, "plain"),
        ({"message": "unwrapped by the SDK"}, "unwrapped by the SDK"),
        ({"detail": [{"msg": "Field required", "input": {"the": "whole body"}}]}, "Field required"),
        ({"unknown": "form"}, ""),
        ("<html>nginx</html>", ""),
        (None, ""),
    ],
)
def test_only_the_providers_own_words_are_shown(body: object, words: str) -> None:
    """A body may repeat the whole request; only where the message is known to stand is it read."""
    assert short_message(body) == words


def test_secrets_and_long_texts_are_cut_out() -> None:
    assert short_message("key sk-12345678 is wrong", secrets=["sk-12345678"]) == "key *** is wrong"
    assert len(short_message("word " * 500)) == 300


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error"}, TryLater),
        ({"code": "server_error"}, TryLater),
        ({"code": 429}, TryLater),
        ({"type": "never heard of it"}, TryLater),
        ("just words", TryLater),
        ({"code": "context_length_exceeded", "type": "invalid_request_error"}, ModelRejected),
        ({"code": 400}, ModelRejected),
        ({"code": "401"}, ModelRejected),
    ],
)
def test_errors_inside_an_answer_are_told_apart(error: object, kind: type[Exception]) -> None:
    assert type(fault_of_error(error)) is kind


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 413, 422])
def test_what_the_provider_refuses_for_good_is_not_tried_again(status: int) -> None:
    fault = fault_of_status(status, None, {})
    assert isinstance(fault, ModelRejected)
    assert fault.of_content == (status not in {401, 402, 403})


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            ModelSpec("primary", "anthropic", "m", api_key="sk-canary-4711", api_key_env="ANTHROPIC_API_KEY"),
            "The model provider (anthropic, primary) refused the key in ANTHROPIC_API_KEY (401): no such key sk-***",
        ),
        (
            ModelSpec("subagent", "openai", "m", api_key="sk-canary-4711"),
            "The model provider (openai, subagent) refused the key (401): no such key sk-***",
        ),
        (
            ModelSpec("primary", "openai", "m"),
            "The model provider (openai, primary) refused a request without a key (401): no such key sk-***",
        ),
    ],
)
def test_a_refused_key_is_named_by_its_variable(spec: ModelSpec, says: str) -> None:
    """With three providers and five variables, "401" alone sends people looking in the wrong place."""
    body = {"error": {"message": "no such key sk-***"}}
    fault = fault_of_status(401, body, {}, secrets=secrets_of(spec), refusal=refusal_of(spec))
    assert str(fault) == says
    assert str(fault_of_status(404, body, {}, refusal=refusal_of(spec))).startswith("The model provider answered 404")
