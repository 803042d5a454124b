"""Notices, events and what bridges bring: where each belongs, what the agent reads, what the webhook gives back."""

from typing import Any

import pytest

from services.gateway.edge.intake import queued_at
from services.gateway.rules.event_request import (
    UnknownSender,
    read_agent_action,
    read_inbound,
    read_notify,
    read_system_event,
)
from shared.domain.api_key import OPERATOR, ApiKey
from shared.errors import BadInput
from shared.ids import new_id

OURS = ApiKey(OPERATOR)
OTHER = ApiKey("phone")


def test_a_notice_says_that_it_is_one_and_what_it_is_about() -> None:
    """The agent must not take a machine for a person, and the receiver wants back what it sent."""
    data = {"level": 3, "tags": ["a", None]}
    body = {"message": "Disk full.", "source": "nagios", "ref": "disk-1", "data": data, "sender": "ada"}
    notice = read_notify(body, key=OURS)
    assert notice.text == "[AUTOMATED SYSTEM MESSAGE] [source: nagios] [ref: disk-1]\nDisk full."
    assert (notice.source, notice.tier, notice.sender) == ("system", "operational", "ada")
    assert notice.meta == {"notify_meta": {"source": "nagios", "ref": "disk-1", "data": data}}
    assert notice.address.conversation == "http:default:ada"


def test_a_bare_notice_gives_nothing_back() -> None:
    """Only the message is required, as in the original."""
    notice = read_notify({"message": "x"}, key=OURS)
    assert (notice.text, notice.sender, notice.meta) == ("[AUTOMATED SYSTEM MESSAGE]\nx", "default", {})


def test_notices_that_name_nobody_join_the_primary_sender() -> None:
    """As ``[behavior] primary_sender`` says; what another key sends stays with that key's own."""
    assert read_notify({"message": "x"}, key=OURS, primary="nico").address.conversation == "http:default:nico"
    assert read_notify({"message": "x", "sender": "ada"}, key=OURS, primary="nico").sender == "ada"
    assert read_notify({"message": "x"}, key=OTHER, primary="nico").address.conversation == "http:phone:default"


def test_no_key_reaches_the_conversations_of_another() -> None:
    """Not even with a name that looks like somebody else's conversation."""
    for key in (OTHER, ApiKey("b")):
        for sender in ("ada", "default:ada", f"{OPERATOR}:ada"):
            address = read_notify({"message": "x", "sender": sender}, key=key).address
            assert address.conversation == f"http:{key.name}:{sender}"
            assert address.principal == f"key:{key.name}"
        for read in (read_system_event, read_agent_action):
            address = read({"message": "x"}, key=key).address
            assert address.conversation.startswith(f"http:{key.name}:system:")
        inbound = read_inbound({"message": "x"}, source="telegram", person="Nico", key=key)
        assert inbound.address.conversation == f"http:{key.name}:Nico"


def test_events_of_the_house_have_conversations_of_their_own() -> None:
    """What machines say must not fill a person's history."""
    event = read_system_event({"message": "x", "sender": "error"}, key=OURS)
    action = read_agent_action({"message": "x", "sender": "other"}, key=OURS)
    assert (event.address.conversation, action.address.conversation) == ("system:error", "system:agent-other")
    assert event.address.channel == "system"
    assert read_system_event({"message": "x"}, key=OURS).sender == "automation"
    assert read_agent_action({"message": "x"}, key=OURS).sender == "self"


@pytest.mark.parametrize("sender", ["self", "ada", 7, None, ["error"]])
def test_who_may_not_write_there_is_told_who_may(sender: Any) -> None:
    """As in the original: the reply names them."""
    with pytest.raises(UnknownSender) as refused:
        read_system_event({"message": "x", "sender": sender}, key=OURS)
    assert refused.value.allowed == ("maintenance", "automation", "error")


def test_both_bridges_lead_to_the_one_conversation_of_the_person() -> None:
    """Who writes from the train by Telegram goes on at home by email."""
    first = read_inbound({"message": "x", "context": "c"}, source="telegram", person="Nico", key=OURS)
    second = read_inbound({"message": "y"}, source="user", person="Nico", key=OURS)
    assert first.address == second.address
    assert (first.text, first.source, first.tier) == ("[c] x", "telegram", "full")
    photo = {"content_type": "image/png", "data": "QUJD"}
    assert read_inbound({"attachments": [photo]}, source="telegram", person="Nico", key=OURS).text == "[image]"


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, '"message" field is required'),
        ({"message": " "}, '"message" field is required'),
        ({"message": "x", "source": 7}, '"source" must be a string'),
        ({"message": "x", "ref": "a\nb"}, "control characters"),
        ({"message": "x", "ref": "a" * 201}, '"ref" must be at most'),
        ({"message": "x", "tier": "a b"}, '"tier" must be the name'),
        ({"message": "x", "data": _nested(900)}, "deeper than 32"),
        ({"message": "x", "data": "a" * 70_000}, "more than 65536 bytes"),
        ({"message": "x", "data": 10**30}, "too long"),
        ([], "JSON object"),
    ],
)
def test_a_notice_that_can_not_be_taken_is_told_why(body: Any, says: str) -> None:
    """One sentence, and nothing of it reaches a table."""
    with pytest.raises(BadInput, match=says):
        read_notify(body, key=OURS)


def test_files_come_with_notices_and_with_what_bridges_bring() -> None:
    """As in the original; they are decoded within the operator's limits when the run is made."""
    cat = {"content_type": "image/png", "data": "QUJD"}
    body = {"message": "look", "attachments": [cat]}
    notice = read_notify(body, key=ApiKey(OPERATOR))
    brought = read_inbound(body, source="telegram", person="ada", key=ApiKey(OPERATOR))
    for incoming in (notice, brought):
        assert [(file.content_type, file.data) for file in incoming.files] == [("image/png", "QUJD")]
    with pytest.raises(BadInput, match=r"attachments\[0\].data"):
        read_notify({"message": "look", "attachments": [{"content_type": "image/png"}]}, key=ApiKey(OPERATOR))
    assert read_system_event(body, key=ApiKey(OPERATOR)).files == ()


def test_when_it_was_queued_is_told_by_the_run() -> None:
    """So all who ask with one idempotency key read the same."""
    run = new_id()
    assert queued_at(run) == queued_at(run)
    assert queued_at(run).endswith("Z")
    assert queued_at(run).startswith("20")
