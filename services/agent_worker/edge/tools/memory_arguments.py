"""What the tools of memory have in common, and with those that schedule: whose it is."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.memory_names import LONGEST_NAME, memory_name
from shared.domain.person import Identity, People

ENTITY: Mapping[str, Any] = {
    "type": "string",
    "description": "Who or what, in lower case with underscores: user, anna_smith, the_car.",
}
ATTRIBUTE: Mapping[str, Any] = {
    "type": "string",
    "description": "What about them, in lower case with underscores: favourite_colour.",
}


def name_of(argument: str, arguments: Mapping[str, Any]) -> str:
    """The name in its one writing. Raises ``ToolFailed`` for one that is empty or too long."""
    name = memory_name(arguments[argument])
    if not name:
        raise ToolFailed(f"'{argument}' must not be empty")
    if len(name) > LONGEST_NAME:
        raise ToolFailed(f"'{argument}' must have at most {LONGEST_NAME} characters, not {len(name)}")
    return name


def identity_of(people: People, use: ToolUse) -> Identity:
    """Who uses the tool; a sub-agent uses it for whoever its root runs for."""
    conversation = use.works_in or use.conversation
    return people.identity(principal=use.principal, sender=use.sender, conversation=conversation)


def whose(people: People, use: ToolUse) -> dict[str, str]:
    """The same for an act."""
    identity = identity_of(people, use)
    return {"identity": identity.name, "person": identity.person}
