"""Telling somebody something while the agent works: whoever it answers, or one of the operator's contacts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from services.agent_worker.edge.tools.receivers import Receivers, may_reach_keyless
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.contacts import Contacts
from shared.domain.delivery import parts
from shared.domain.effect import ToolSpec

LONGEST_TEXT = 40_000
"""Characters, as for what is sent over HTTP."""

MOST_MESSAGES = 20
"""Of one run: more than that is no conversation."""

_SPEC = ToolSpec(
    name="message",
    description=(
        "Send a message to one of the known contacts, or to the person you answer: to them it goes out at once, before "
        "your reply. Your reply itself needs no tool."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "target": {"type": "string", "description": "The contact's name."},
            "text": {"type": "string", "description": "What to say."},
        },
        "required": ["target"],
    },
    effect="local",
)


@dataclass(frozen=True, slots=True)
class MessageTerms:
    """``part_limit``: UTF-16 units of one part; ``deadline`` and ``capacity`` of what is sent to others, as of any
    message."""

    part_limit: int
    deadline: timedelta
    capacity: int


class MessageTool:
    """Sends messages, each in one transaction with the tool's result: once, whatever is killed."""

    def __init__(self, contacts: Contacts, terms: MessageTerms) -> None:
        self._receivers = Receivers(contacts)
        self._terms = terms

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Send it. Raises ``ToolFailed`` for nobody's name, nothing to say, too much, and where nobody would carry
        it."""
        text = arguments.get("text", "")
        if not text.strip():
            raise ToolFailed("There is nothing to send: text is empty")
        if len(text) > LONGEST_TEXT:
            raise ToolFailed(f"text has more than {LONGEST_TEXT} characters")
        receiver = self._receivers.anybody(arguments["target"], use)
        terms = self._terms
        return await use.act(
            "message",
            {
                "name": receiver.name,
                "place": receiver.place,
                "text": text,
                "parts": parts(text, limit=terms.part_limit) if receiver.place is None else [],
                "keyless": may_reach_keyless(use),
                "most": MOST_MESSAGES,
                "capacity": terms.capacity,
                "seconds": terms.deadline.total_seconds(),
            },
        )
