"""What a client may ask for; everything else is told in one sentence and changes nothing."""

from typing import Any

import pytest

from services.gateway.rules.attachments import AttachmentLimits
from services.gateway.rules.chat_request import (
    CostQuery,
    address_of,
    read_chat_request,
    read_idempotency_key,
    read_last_event_id,
    read_reset_target,
    read_traceparent,
)
from services.gateway.rules.request_body import read_as
from shared.domain.api_key import OPERATOR, ApiKey
from shared.domain.attachment import Attachment
from shared.errors import BadInput

CAT = {"content_type": "image/png", "data": "QUJD", "filename": "cat.png"}


def test_a_message_alone_is_enough() -> None:
    """Everything but the message has a default, as in the original."""
    asked = read_chat_request({"message": "hello"})
    assert (asked.text, asked.sender, asked.source, asked.tier) == ("hello", "default", "http", "full")
    address = address_of(asked, key=ApiKey("default"))
    assert address.conversation == "http:default:default"
    assert address.contact == "http-default"
    assert address.principal == "key:default"


def test_attachments_come_with_it() -> None:
    """In the form of the original; bounded as the operator says."""
    asked = read_chat_request({"message": "look", "attachments": [CAT]})
    assert asked.attachments == (Attachment("image/png", b"ABC", "cat.png"),)
    assert read_chat_request({"message": "look", "attachments": None}).attachments == ()
    with pytest.raises(BadInput, match=r"attachments\[0\] is larger than 2 bytes"):
        read_chat_request({"message": "look", "attachments": [CAT]}, AttachmentLimits(size=2))


def test_context_goes_before_the_message() -> None:
    """Integrations hand over context; the agent must be able to tell it from what was said."""
    assert read_chat_request({"message": "hi", "context": "from the CRM"}).text == "[context] from the CRM\nhi"


def test_the_terminal_has_one_conversation() -> None:
    """Whoever chats in the terminal goes on where they were, from any window; named senders have their own."""
    assert address_of(read_chat_request({"message": "x", "source": "cli"}), key=ApiKey(OPERATOR)).conversation == "cli"
    named = read_chat_request({"message": "x", "source": "cli", "sender": "bob"})
    assert address_of(named, key=ApiKey(OPERATOR)).conversation == "cli:bob"
    assert address_of(named, key=ApiKey("k")).conversation == "http:k:bob"  # the terminal is the operator's


def test_two_keys_never_share_a_conversation() -> None:
    """A sender is only a name; the key says whose it is."""
    asked = read_chat_request({"message": "x", "sender": "bob"})
    assert address_of(asked, key=ApiKey("a")).conversation != address_of(asked, key=ApiKey("b")).conversation


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "JSON object"),
        (None, "JSON object"),
        ({}, '"message" field is required'),
        ({"message": ""}, '"message" field is required'),
        ({"message": "   "}, '"message" field is required'),
        ({"message": 7}, '"message" field is required'),
        ({"message": "x", "sender": 7}, '"sender" must be a string'),
        ({"message": "x", "sender": "a" * 201}, '"sender" must be at most'),
        ({"message": "x", "sender": "a\nb"}, "control characters"),
        ({"message": "x", "sender": "a\0b"}, "control characters"),
        ({"message": "x", "sender": "a\ud800b"}, "control characters"),
        ({"message": "x", "tier": "a\0"}, '"tier"'),
        ({"message": "x", "tier": "../etc"}, '"tier"'),
        ({"message": "x", "context": ["a"]}, '"context" must be a string'),
        ({"message": "x", "source": "telegram"}, '"source"'),
        ({"message": "x", "attachments": "cat.png"}, '"attachments" must be a list'),
        ({"message": "x", "attachments": ["cat.png"]}, r'"attachments\[0\]" must be an object'),
        ({"message": "x", "attachments": [{"data": "QUJD"}]}, r'"attachments\[0\].content_type" field is required'),
        (
            {"message": "x", "attachments": [CAT, {"content_type": "image/png"}]},
            r'"attachments\[1\].data" field is req',
        ),
        ({"message": "x", "attachments": [CAT, CAT | {"data": "?"}]}, r"attachments\[1\] is not base64"),
        ({"message": "x", "attachments": [CAT | {"content_type": "x"}]}, "must be a media type, such as image/png"),
        ({"message": "x", "attachments": [CAT] * 11}, "at most 10 attachments, and this one has 11"),
    ],
)
def test_what_can_not_be_taken_is_said(body: Any, says: str) -> None:
    """The original answered some of these with 500."""
    with pytest.raises(BadInput, match=says):
        read_chat_request(body)


def test_a_reset_needs_a_target() -> None:
    """Nobody resets by accident."""
    assert read_reset_target({"target": " all "}) == "all"
    bodies: list[Any] = [{}, {"target": ""}, {"target": 1}, [], "all"]
    for body in bodies:
        with pytest.raises(BadInput, match=r"target|JSON object"):
            read_reset_target(body)


@pytest.mark.parametrize("target", ["\0", "a\0b", "a\x1bb", "a\x9bb", "a\ufffdb"])
def test_a_target_that_no_name_can_be_is_refused(target: str) -> None:
    """Postgres can't even look for some of these."""
    with pytest.raises(BadInput, match='"target" must be a name without control characters'):
        read_reset_target({"target": target})


def test_a_message_is_taken_without_what_no_store_can_hold() -> None:
    """A pasted NUL or half an emoji is no reason to lose what somebody wrote; each is replaced."""
    asked = read_chat_request({"message": "a\0b\ud83dc", "context": "d\0"})
    assert asked.text == "[context] d\ufffd\na\ufffdb\ufffdc"
    assert read_chat_request({"message": "tab\t and\nline 👩‍💻"}).text == "tab\t and\nline 👩‍💻"


def test_idempotency_keys_are_short_and_plain() -> None:
    """They become part of a primary key."""
    assert read_idempotency_key(None) is None
    assert read_idempotency_key("a" * 255) == "a" * 255
    for key in ("", "a" * 256, "schlüssel", "a\tb"):
        with pytest.raises(BadInput, match="Idempotency-Key"):
            read_idempotency_key(key)


def test_periods_are_those_of_the_original() -> None:
    """An unknown period is an error, not everything."""
    assert read_as(CostQuery, {}).period == "today"
    assert read_as(CostQuery, {"period": "week"}).period == "week"
    assert read_as(CostQuery, {"period": "2026-05"}).period == "2026-05"
    with pytest.raises(BadInput, match="period"):
        read_as(CostQuery, {"period": "2026-13"})


def test_a_broken_traceparent_is_left_out() -> None:
    """The standard says to begin a new trace then; what a client sends must not reach the streams unchecked."""
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert read_traceparent(good) == good
    assert read_traceparent("x" * 10_000) is None
    assert read_traceparent(None) is None


@pytest.mark.parametrize("given", ["0-0", "7-4294967297", f"1-{2**64 - 1}", "0" * 19 + "-1"])
def test_an_event_id_is_taken_as_it_is(given: str) -> None:
    """Any gateway resumes from any id that was told."""
    assert read_last_event_id(given) == given


@pytest.mark.parametrize("given", ["1", "1-", "-1", "1-2-3", f"1-{2**64}", "9" * 20 + "-1", "1-2\n", "१-१", " 1-1"])
def test_what_is_no_event_id_is_refused(given: str) -> None:
    """A stream that began somewhere else would be a gap that nobody sees."""
    with pytest.raises(BadInput, match="Last-Event-ID"):
        read_last_event_id(given)


def test_no_event_id_is_the_beginning() -> None:
    """Browsers send an empty one."""
    assert read_last_event_id(None) is None
    assert read_last_event_id("") is None
