"""``message``: who is meant, what is refused before anything is asked of Postgres, and what is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from services.agent_worker.edge.tools.kept_files import KeptFiles
from services.agent_worker.edge.tools.message import LONGEST_TEXT, MOST_MESSAGES, MessageTerms, MessageTool
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.tables import Tables
from shared.domain.contacts import Contacts

CONTACTS = Contacts({"Ann": "telegram:7", "Bob": "telegram:8"})


class Asked:
    """Remembers the act that was asked for."""

    def __init__(self) -> None:
        self.name = ""
        self.arguments: Mapping[str, Any] = {}

    async def act(self, name: str, arguments: Mapping[str, Any]) -> str:
        self.name, self.arguments = name, arguments
        return "Sent."


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def anns(use: ToolUse, asked: Asked) -> ToolUse:
    """A run that answers Ann in Telegram."""
    return replace(
        use, conversation="telegram:7", principal="person:telegram:7", sender="7", contact="Ann", act=asked.act
    )


@pytest.fixture
def files(paths: AllowedPaths) -> KeptFiles:
    return KeptFiles(paths, InMemoryBlobs(Tables(ManualClock())))


@pytest.fixture
def tool(files: KeptFiles) -> MessageTool:
    return MessageTool(CONTACTS, MessageTerms(10, timedelta(seconds=60), 5), files)


async def test_a_contact_is_meant_however_the_name_is_written(tool: MessageTool, anns: ToolUse, asked: Asked) -> None:
    """Models write names as people do."""
    assert await tool.run({"target": " bOB ", "text": "Tea at five?"}, anns) == "Sent."
    assert (asked.name, asked.arguments) == (
        "message",
        {
            "name": "Bob",
            "place": "telegram:8",
            "text": "Tea at five?",
            "parts": [],
            "keyless": True,
            "most": MOST_MESSAGES,
            "capacity": 5,
            "seconds": 60.0,
        },
    )


@pytest.mark.parametrize("target", ["ann", "7", "telegram:7", "Ann "])
async def test_whoever_is_answered_is_meant_by_name_number_and_conversation(
    tool: MessageTool, anns: ToolUse, asked: Asked, target: str
) -> None:
    """Their words are in pieces that the chat takes: they go out as they are."""
    await tool.run({"target": target, "text": "Tea at five?"}, anns)
    assert (asked.arguments["place"], asked.arguments["parts"]) == (None, ["Tea at", "five?"])


async def test_a_topic_of_a_chat_is_its_persons_too(tool: MessageTool, anns: ToolUse, asked: Asked) -> None:
    """Words for whoever is answered stay where they are talking."""
    await tool.run({"target": "Ann", "text": "Tea?"}, replace(anns, conversation="telegram:7:12"))
    assert asked.arguments["place"] is None
    await tool.run({"target": "Ann", "text": "Tea?"}, replace(anns, conversation="telegram:77", sender="77"))
    assert asked.arguments["place"] == "telegram:7"


async def test_a_sub_agent_speaks_to_the_person_of_its_root(tool: MessageTool, anns: ToolUse, asked: Asked) -> None:
    """In its own conversation nobody listens."""
    child = replace(anns, conversation="system:sub:1:2:3", works_in="telegram:7", contact="sub-agent")
    await tool.run({"target": "ann", "text": "Tea?"}, child)
    assert asked.arguments["place"] is None


async def test_a_contact_comes_before_a_sender_of_the_same_name(tool: MessageTool, anns: ToolUse, asked: Asked) -> None:
    """Over HTTP a caller may call itself anything."""
    over_http = replace(anns, conversation="http:default:bob", principal="key:default", sender="Bob", contact="Bob")
    await tool.run({"target": "Bob", "text": "Tea?"}, over_http)
    assert asked.arguments["place"] == "telegram:8"


@pytest.mark.parametrize(("target", "principal", "known"), [
    ("Cleo", "person:telegram:7", "Ann, Bob"), ("", "key:default", "Ann, Bob"), ("x" * 200, "key:default", "Ann, Bob"),
    ("Bob", "key:ann", "none that this key may reach"),
])  # fmt: skip
async def test_an_unknown_name_is_answered_with_those_that_may_be_reached(
    tool: MessageTool, anns: ToolUse, target: str, principal: str, known: str
) -> None:
    """To a named key the operator's contacts do not exist."""
    elsewhere = replace(anns, conversation="http:ann:x", sender="x", contact="x", principal=principal)
    with pytest.raises(ToolFailed) as refusal:
        await tool.run({"target": target, "text": "Tea?"}, elsewhere)
    assert str(refusal.value) == f"Unknown contact '{target[:100]}'. Contacts: {known}"


async def test_without_contacts_that_is_said(anns: ToolUse, files: KeptFiles) -> None:
    """The operator has named none."""
    tool = MessageTool(Contacts(), MessageTerms(10, timedelta(seconds=60), 5), files)
    with pytest.raises(ToolFailed, match=r"^Unknown contact 'Bob'\. Contacts: none are configured$"):
        await tool.run({"target": "Bob", "text": "Tea?"}, anns)


@pytest.mark.parametrize("arguments", [{"target": "Bob"}, {"target": "Bob", "text": " \n"}])
async def test_nothing_to_say_is_refused(
    tool: MessageTool, anns: ToolUse, asked: Asked, arguments: Mapping[str, Any]
) -> None:
    """A channel would refuse an empty message."""
    with pytest.raises(ToolFailed, match="nothing to send"):
        await tool.run(arguments, anns)
    assert asked.name == ""


async def test_too_much_to_say_is_refused(tool: MessageTool, anns: ToolUse, asked: Asked) -> None:
    """It would be a hundred messages in somebody's chat."""
    await tool.run({"target": "Bob", "text": "x" * LONGEST_TEXT}, anns)
    with pytest.raises(ToolFailed, match=f"more than {LONGEST_TEXT}"):
        await tool.run({"target": "Bob", "text": "x" * (LONGEST_TEXT + 1)}, anns)


async def test_files_go_along_by_reference(tool: MessageTool, anns: ToolUse, asked: Asked, workspace: Path) -> None:
    """For others as attachments of a message; for whoever is answered as what goes out, with the text below one."""
    (workspace / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n a cat")
    (workspace / "notes.md").write_bytes(b"# notes")
    await tool.run({"target": "Bob", "attachments": ["cat.png", "notes.md"]}, anns)
    cat, notes = asked.arguments["blocks"]
    assert (asked.arguments["text"], asked.arguments["parts"]) == ("", [])
    assert [cat["text"], notes["text"]] == [
        "[image: cat.png, image/png, 14 bytes]", "[attachment: notes.md, text/markdown, 7 bytes]"
    ]  # fmt: skip
    assert cat["id"] != notes["id"]
    await tool.run({"target": "Ann", "text": "A cat.", "attachments": ["cat.png"]}, anns)
    (part,) = asked.arguments["parts"]
    assert (part["text"], part["file"]["as"], part["file"]["name"]) == ("A cat.", "photo", "cat.png")
    await tool.run({"target": "Ann", "text": "Both here.", "attachments": ["cat.png", "notes.md"]}, anns)
    text, first, second = asked.arguments["parts"]
    assert (text, first["text"], first["file"]["as"], second["file"]["as"]) == ("Both here.", "", "photo", "document")


@pytest.mark.parametrize(("given", "sentence"), [(["gone.png"], "File not found"), (["x"] * 11, "at most 10 attach")])
async def test_files_that_can_not_be_sent_are_refused(
    tool: MessageTool, anns: ToolUse, asked: Asked, given: Sequence[str], sentence: str
) -> None:
    """And nothing is sent without them."""
    with pytest.raises(ToolFailed, match=sentence):
        await tool.run({"target": "Bob", "text": "Look.", "attachments": given}, anns)
    assert asked.name == ""
