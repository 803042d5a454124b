"""A run that another run has asked for, and waits for: a sub-agent at work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

CHILD_CONVERSATIONS = "system:sub:"
"""How the conversation of a child begins; the rest is the call that it answers: ``<parent>:<step>:<index>``."""

MODEL_ROUTE = "model:"
"""How the route to the model of a role begins, for a run that was asked for with that role."""


@dataclass(frozen=True, slots=True)
class ChildRun:
    """What a child may do, as it was decided when it was spawned.

    ``root`` is the run that it works for in the end: all of them spend the money of one message. ``depth`` is 1 for a
    child of that run. ``tools`` are all that it may use. ``works_in`` is the conversation of the root: for whoever
    speaks there the child does what it does.
    """

    parent: UUID
    root: UUID
    depth: int
    tools: frozenset[str]
    max_turns: int
    works_in: str


def parent_in(conversation: str) -> UUID | None:
    """The run that asked for what is done in this conversation, if it is a child's."""
    if not conversation.startswith(CHILD_CONVERSATIONS):
        return None
    return UUID(conversation.removeprefix(CHILD_CONVERSATIONS).partition(":")[0])


def child_of(message: Mapping[str, Any]) -> ChildRun | None:
    """What the message of a run says of it, if it is a child."""
    said = message.get("child")
    if said is None:
        return None
    return ChildRun(
        parent=UUID(said["parent"]),
        root=UUID(said["root"]),
        depth=said["depth"],
        tools=frozenset(said["tools"]),
        max_turns=said["max_turns"],
        works_in=said.get("works_in", ""),
    )
