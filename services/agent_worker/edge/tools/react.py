"""Reacting to what somebody wrote, with an emoji below it."""

from collections.abc import Mapping
from typing import Any, Final

from services.agent_worker.edge.tools.message import MOST_MESSAGES
from services.agent_worker.edge.tools.receivers import Receivers, may_reach_keyless
from services.agent_worker.ports import ToolUse
from shared.domain.contacts import Contacts
from shared.domain.effect import ToolSpec

EMOJI: Final = (
    "👍", "👎", "❤", "🔥", "🥰", "👏", "😁", "🤔", "🤯", "😱", "🤬", "😢", "🎉",
    "🤩", "🤮", "💩", "🙏", "👌", "🕊", "🤡", "🥱", "🥴", "😍", "🐳", "❤\u200d🔥", "🌚",
    "🌭", "💯", "🤣", "⚡", "🍌", "🏆", "💔", "🤨", "😐", "🍓", "🍾", "💋", "🖕",
    "😈", "😴", "😭", "🤓", "👻", "👨\u200d💻", "👀", "🎃", "🙈", "😇", "😨", "🤝", "✍",
    "🤗", "🫡", "🎅", "🎄", "☃", "💅", "🤪", "🗿", "🆒", "💘", "🙉", "🦄", "😘",
    "💊", "🙊", "😎", "👾", "🤷\u200d♂", "🤷", "🤷\u200d♀", "😡",
)  # fmt: skip
"""The reactions that Telegram lets a bot set."""

_SPEC = ToolSpec(
    name="react",
    description="React with an emoji to the last message of the person you answer, or of one of the known contacts.",
    input_schema={
        "type": "object",
        "properties": {
            "target": {"type": "string", "description": "The contact's name: whose chat."},
            "emoji": {"type": "string", "enum": list(EMOJI)},
            "sender": {"type": "string", "description": "Whose last message in that chat; anybody's if left out."},
        },
        "required": ["target", "emoji"],
    },
    effect="local",
)


class ReactTool:
    """Reacts. What is set takes the place of an earlier reaction to the same message."""

    def __init__(self, contacts: Contacts) -> None:
        self._contacts = contacts
        self._receivers = Receivers(contacts)

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Do it. Raises ``ToolFailed`` for nobody's name, and where no message is remembered."""
        receiver = self._receivers.anybody(arguments["target"], use)
        return await use.act(
            "react",
            {
                "name": receiver.name,
                "place": receiver.place,
                "emoji": arguments["emoji"],
                "sender": self._sender(arguments.get("sender", "").strip(), use),
                "keyless": may_reach_keyless(use),
                "most": MOST_MESSAGES,
            },
        )

    def _sender(self, name: str, use: ToolUse) -> str | None:
        """As runs call whoever wrote: by their number there."""
        if not name:
            return None
        if contact := self._contacts.find(name):
            return contact.place.rpartition(":")[2]
        return use.sender if name.casefold() == use.contact.casefold() else name
