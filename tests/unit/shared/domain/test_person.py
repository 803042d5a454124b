"""Whose memory a run is about."""

import pytest

from shared.domain.person import OWNER, Identity, People


def person(principal: str, sender: str = "anna", conversation: str = "", *, allowed: tuple[int, ...] = ()) -> str:
    return who(principal, sender, conversation, allowed=allowed).person


def who(principal: str, sender: str = "anna", conversation: str = "", *, allowed: tuple[int, ...] = ()) -> Identity:
    return People(frozenset(allowed)).identity(principal=principal, sender=sender, conversation=conversation)


@pytest.mark.parametrize(
    ("sender", "conversation"),
    [("cli", "cli"), ("anna", "http:default:anna"), ("automation", "system:automation"), ("self", "system:agent-self")],
)
def test_whoever_holds_the_operators_token_is_the_owner(sender: str, conversation: str) -> None:
    """The terminal, programs and the machines of the house tell the agent of one life."""
    assert person("key:default", sender, conversation) == OWNER


def test_the_one_telegram_id_that_may_write_is_the_owner() -> None:
    """Who sits at the terminal and who writes by telephone is the same person, and there is nobody else."""
    assert who("person:telegram:55", allowed=(55,)) == Identity("telegram:55", OWNER)


@pytest.mark.parametrize("allowed", [(), (55, 56), (56,), (5,)])
def test_a_telegram_id_that_is_not_the_only_one_is_a_person_of_its_own(allowed: tuple[int, ...]) -> None:
    """Nobody becomes the owner because others may write, too, or because everybody may."""
    assert person("person:telegram:55", allowed=allowed) == "telegram:55"


def test_each_sender_of_a_named_key_is_a_person_of_their_own() -> None:
    """A shop's customers must never hear of each other, and the same name under another key is somebody else."""
    names = [
        person("key:shop", "anna", "http:shop:anna"),
        person("key:shop", "berta", "http:shop:berta"),
        person("key:pub", "anna", "http:pub:anna"),
    ]
    assert names == ["http:shop:anna", "http:shop:berta", "http:pub:anna"]


def test_a_key_cannot_name_its_way_into_another_ones_memory() -> None:
    """A sender is whatever the caller writes."""
    for sender in ("default:x", "owner", "telegram:55", "pub:anna"):
        assert person("key:shop", sender, f"http:shop:{sender}") == f"http:shop:{sender}"
    assert person("key:shop", "owner", "http:shop:owner") != OWNER


def test_machines_of_a_named_key_are_none_of_its_people() -> None:
    """An event called `automation` is not the customer of that name."""
    assert person("key:shop", "automation", "http:shop:system:automation") == "http:shop:system:automation"
    assert person("key:shop", "automation", "http:shop:automation") == "http:shop:automation"


def test_in_a_conversation_of_another_kind_the_sender_counts() -> None:
    """What a run of Anna's sets going elsewhere is still Anna's."""
    assert person("key:shop", "anna", "system:sub:0190:1:0") == "http:shop:anna"


def test_a_principal_of_another_kind_is_itself() -> None:
    """A channel that comes later must not fall together with anybody."""
    assert person("person:email:a@b.c", allowed=(55,)) == "person:email:a@b.c"
