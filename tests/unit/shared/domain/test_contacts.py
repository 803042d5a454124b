"""One rule for names, and one for where words may go, wherever they come from."""

import pytest

from shared.domain.contacts import Contact, Contacts
from shared.ports.records import Whose

CONTACTS = Contacts.of_telegram({"Ann": 7, "Straße": 8})


@pytest.mark.parametrize("name", ["Ann", "ann", " ANN ", "aNN\n"])
def test_upper_and_lower_case_are_one(name: str) -> None:
    """As people write names."""
    assert CONTACTS.find(name) == Contact("Ann", "telegram:7")


def test_case_is_that_of_all_languages() -> None:
    """Lower case alone would not find it."""
    assert CONTACTS.find("STRASSE") == Contact("Straße", "telegram:8")


@pytest.mark.parametrize("name", ["", "An", "Anna", "7", "telegram:7"])
def test_nothing_but_a_name_is_one(name: str) -> None:
    """A part of a name, or a number, may mean somebody else."""
    assert CONTACTS.find(name) is None


def test_names_are_told_in_order() -> None:
    """And that there are none."""
    assert (CONTACTS.known(), Contacts().known()) == ("Ann, Straße", "none are configured")


@pytest.mark.parametrize(("principal", "keyless"), [
    ("key:default", True), ("person:telegram:7", True), ("cli", True), ("key:ann", False), ("key:default2", False),
])  # fmt: skip
def test_a_named_key_stays_with_what_is_its_own(principal: str, *, keyless: bool) -> None:
    """The operator, and who comes without a key, also reach people of the channels."""
    assert Whose.within_reach(principal) == Whose(principal, keyless=keyless)
