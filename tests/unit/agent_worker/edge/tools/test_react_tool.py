"""``react``: the emoji there are, whose message is meant, and what is asked of Postgres."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.react import EMOJI, ReactTool
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.contacts import Contacts
from tests.builders import call

TOOL = ReactTool(Contacts({"Ann": "telegram:7", "Bob": "telegram:8"}))


class Asked(list[tuple[str, Mapping[str, Any]]]):
    """The acts that were asked for."""

    async def act(self, name: str, arguments: Mapping[str, Any]) -> str:
        self.append((name, arguments))
        return "Reacted."


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def anns(use: ToolUse, asked: Asked) -> ToolUse:
    """A run that answers Ann in Telegram."""
    return replace(
        use, conversation="telegram:7", principal="person:telegram:7", sender="7", contact="Ann", act=asked.act
    )


def test_there_are_those_that_telegram_takes() -> None:
    """Another one would be refused after the model was told that it is there."""
    assert len(set(EMOJI)) == len(EMOJI) == 73
    assert all(len(each.encode("utf-16-le")) <= 10 for each in EMOJI)
    assert not any("\N{VARIATION SELECTOR-16}" in each for each in EMOJI)


@pytest.mark.parametrize(("arguments", "place", "sender"), [
    ({"target": "Ann"}, None, None), ({"target": "bob"}, "telegram:8", None),
    ({"target": "Bob", "sender": " BOB"}, "telegram:8", "8"), ({"target": "Bob", "sender": "9"}, "telegram:8", "9"),
    ({"target": "ann", "sender": "Ann"}, None, "7"), ({"target": "telegram:7", "sender": " "}, None, None),
])  # fmt: skip
async def test_the_chat_and_whose_message_in_it_are_meant_by_name(
    anns: ToolUse, asked: Asked, arguments: Mapping[str, Any], place: str | None, sender: str | None
) -> None:
    """Runs know people by their numbers, and models by their names."""
    assert await TOOL.run({**arguments, "emoji": EMOJI[0]}, anns) == "Reacted."
    ((name, act),) = asked
    assert (name, act["place"], act["sender"], act["emoji"]) == ("react", place, sender, EMOJI[0])


async def test_who_is_called_by_a_label_is_the_sender(anns: ToolUse, asked: Asked) -> None:
    """Not everybody who writes is a contact."""
    await TOOL.run({"target": "cleo", "sender": "Cleo", "emoji": EMOJI[0]}, replace(anns, contact="Cleo", sender="9"))
    assert (asked[0][1]["place"], asked[0][1]["sender"]) == (None, "9")


async def test_an_unknown_name_is_answered_with_the_known_ones(anns: ToolUse, asked: Asked) -> None:
    """Over a named key there are none."""
    with pytest.raises(ToolFailed, match=r"^Unknown contact 'Dora'\. Contacts: Ann, Bob$"):
        await TOOL.run({"target": "Dora", "emoji": EMOJI[0]}, anns)
    with pytest.raises(ToolFailed, match="none that this key may reach"):
        await TOOL.run({"target": "Bob", "emoji": EMOJI[0]}, replace(anns, principal="key:ann", conversation="http:x"))
    assert asked == []


async def test_what_is_no_reaction_is_refused_before_the_tool(anns: ToolUse, asked: Asked) -> None:
    """The model reads which there are."""
    toolbox = LocalToolbox([TOOL], output_truncation=10_000, max_parallel=1)
    result = await toolbox.use(call("react", target="Bob", emoji="\N{HOT BEVERAGE}"), anns)
    assert result["content"].startswith("Error: Invalid arguments for 'react': 'emoji' must be one of ")
    assert EMOJI[-1] in result["content"]
    assert asked == []


@pytest.mark.parametrize("emoji", ["\N{HEAVY BLACK HEART}", "\N{SNOWMAN}", "\N{HEAVY BLACK HEART}\u200d\N{FIRE}"])
async def test_an_emoji_that_is_marked_as_one_is_the_same(anns: ToolUse, asked: Asked, emoji: str) -> None:
    """Models write a heart with the mark, and Telegram lists it without."""
    toolbox = LocalToolbox([TOOL], output_truncation=10_000, max_parallel=1)
    marked = f"{emoji[0]}\N{VARIATION SELECTOR-16}{emoji[1:]}"
    await toolbox.use(call("react", target="Bob", emoji=marked), anns)
    assert [act["emoji"] for _, act in asked] == [emoji]
