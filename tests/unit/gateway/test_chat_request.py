"""What a client may ask for; everything else is told in one sentence and changes nothing."""

from typing import Any

import pytest

from services.gateway.rules.attachments import AttachmentLimits, read_attachments
from services.gateway.rules.chat_request import (
    CostQuery,
    read_chat,
    read_idempotency_key,
    read_last_event_id,
    read_reset_target,
    read_traceparent,
)
from services.gateway.rules.incoming import Incoming
from services.gateway.rules.request_body import read_as
from shared.domain.api_key import OPERATOR, ApiKey
from shared.domain.attachment import Attachment
from shared.errors import BadInput

CAT = {"content_type": "image/png", "data": "QUJD", "filename": "cat.png"}


def chat(*, key: str = OPERATOR, **body: Any) -> Incoming:
    """The message in such a body."""
    return read_chat(body, key=ApiKey(key))


def test_a_message_alone_is_enough() -> None:
    """Everything but the message has a default, as in the original."""
    asked = chat(message="hello")
    assert (asked.text, asked.sender, asked.source, asked.tier) == ("hello", "default", "http", "full")
    assert asked.address.conversation == "http:default:default"
    assert asked.address.contact == "http-default"
    assert asked.address.principal == "key:default"


def test_attachments_come_with_it() -> None:
    """In the form of the original; bounded as the operator says."""
    files = chat(message="look", attachments=[CAT]).files
    assert read_attachments(files, AttachmentLimits()) == (Attachment("image/png", b"ABC", "cat.png"),)
    assert chat(message="look", attachments=None).files == ()
    with pytest.raises(BadInput, match=r"attachments\[0\] is larger than 2 bytes"):
        read_attachments(files, AttachmentLimits(size=2))


@pytest.mark.parametrize("silence", [{}, {"message": None}, {"message": " \n"}])
def test_a_photo_without_a_word_is_a_message(silence: dict[str, Any]) -> None:
    """As in the original, whose agent reads what came. Phones send most photos so."""
    voice = {"content_type": "image/ogg", "data": "QUJD", "is_voice": True}
    notes = {"content_type": "text/plain", "data": "QUJD"}
    assert chat(**silence, attachments=[CAT, CAT]).text == "[image]"
    assert chat(**silence, attachments=[CAT, voice, notes]).text == "[image]\n[voice message]\n[attachment]"
    assert chat(**silence, attachments=[CAT], context="door").text == "[door] [image]"
    nothings: tuple[Any, ...] = ([], None)
    for nothing in nothings:
        with pytest.raises(BadInput, match=r'^"message" field is required$'):
            chat(**silence, attachments=nothing)


def test_a_sender_may_be_a_number() -> None:
    """Many systems know their people by numbers, and the original made text of them."""
    assert chat(message="x", sender=7).address == chat(message="x", sender="7").address
    assert chat(message="x", sender=7.0).sender == "7"
    assert chat(message="x", sender=-(2**53) + 1).sender == "-9007199254740991"


def test_context_goes_before_the_message() -> None:
    """Integrations say where it comes from, in the original's form."""
    assert chat(message="hi", context="from the CRM").text == "[from the CRM] hi"


def test_the_terminal_has_one_conversation() -> None:
    """Whoever chats in the terminal goes on where they were, from any window; named senders have their own."""
    assert chat(message="x", source="cli").address.conversation == "cli"
    assert chat(message="x", source="cli", sender="bob").address.conversation == "cli:bob"
    named = chat(key="k", message="x", source="cli", sender="bob")
    assert named.address.conversation == "http:k:bob"  # the terminal is the operator's


def test_two_keys_never_share_a_conversation() -> None:
    """A sender is only a name; the key says whose it is."""
    one, other = (chat(key=key, message="x", sender="bob") for key in ("a", "b"))
    assert one.address.conversation != other.address.conversation


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "JSON object"),
        (None, "JSON object"),
        ({}, '"message" field is required'),
        ({"message": ""}, '"message" field is required'),
        ({"message": "   "}, '"message" field is required'),
        ({"message": 7}, '"message" field is required'),
        ({"message": "x", "sender": True}, '"sender" must be a string'),
        ({"message": "x", "sender": 1.5}, '"sender" must be a string'),
        ({"message": "x", "sender": 2**53}, '"sender" must be a string'),
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
        read_attachments(read_chat(body, key=ApiKey(OPERATOR)).files, AttachmentLimits())


def test_a_reset_has_a_target_and_by_default_all_as_in_the_original() -> None:
    """A target that is none is no default: nobody resets everything by a slip in it."""
    assert read_reset_target({"target": " all "}) == read_reset_target({}) == "all"
    bodies: list[Any] = [{"target": None}, {"target": ""}, {"target": 1}, [], "all"]
    for body in bodies:
        with pytest.raises(BadInput, match=r"target|JSON object"):
            read_reset_target(body)


@pytest.mark.parametrize("target", ["\0", "a\0b", "a\x1bb", "a\x9bb", "a\ufffdb", "all\n", "\x85all"])
def test_a_target_that_no_name_can_be_is_refused(target: str) -> None:
    """Postgres can't even look for some of these."""
    with pytest.raises(BadInput, match='"target" must be a name without control characters'):
        read_reset_target({"target": target})


@pytest.mark.parametrize("name", ["\n", "a\n", "\x1f", "\x85a", "\ta", " " * 250, "x" * 200 + " "])
def test_a_name_is_judged_as_it_was_sent(name: str) -> None:
    """The document says how long and of what it may be, and says nothing of blanks that are taken away before."""
    with pytest.raises(BadInput, match='"sender" must be at most 200 characters, without control characters'):
        chat(message="hello", sender=name)


def test_a_message_is_taken_without_what_no_store_can_hold() -> None:
    """A pasted NUL or half an emoji is no reason to lose what somebody wrote; each is replaced."""
    assert chat(message="a\0b\ud83dc", context="d\0").text == "[d\ufffd] a\ufffdb\ufffdc"
    assert chat(message="tab\t and\nline 👩‍💻").text == "tab\t and\nline 👩‍💻"


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
