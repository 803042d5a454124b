"""Telling somebody something while the agent works: whoever it answers, or one of the operator's contacts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from services.agent_worker.edge.tools.kept_files import KeptFiles
from services.agent_worker.edge.tools.receivers import Receivers, may_reach_keyless
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.contacts import Contacts
from shared.domain.delivery import parts
from shared.domain.effect import ToolSpec
from shared.domain.outgoing_file import OutgoingFile, as_block, fits_below

LONGEST_TEXT = 40_000
"""Characters, as for what is sent over HTTP."""

MOST_FILES = 10
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
            "attachments": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Paths of files to send along: absolute, or relative to the workspace.",
            },
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

    def __init__(self, contacts: Contacts, terms: MessageTerms, files: KeptFiles) -> None:
        self._receivers = Receivers(contacts)
        self._terms = terms
        self._files = files

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Send it. Raises ``ToolFailed`` for nobody's name, nothing to say, too much, and where nobody would carry
        it."""
        text, paths = arguments.get("text", ""), arguments.get("attachments", ())
        text = text if text.strip() else ""
        if not text and not paths:
            raise ToolFailed("There is nothing to send: text is empty, and there are no attachments")
        if len(text) > LONGEST_TEXT:
            raise ToolFailed(f"text has more than {LONGEST_TEXT} characters")
        if len(paths) > MOST_FILES:
            raise ToolFailed(f"one message may have at most {MOST_FILES} attachments, not {len(paths)}")
        receiver = self._receivers.anybody(arguments["target"], use)
        files = [await self._files.keep(path, use, number=number) for number, path in enumerate(paths)]
        terms = self._terms
        return await use.act(
            "message",
            {
                "name": receiver.name,
                "place": receiver.place,
                "text": text,
                "parts": _bodies(text, files, terms.part_limit) if receiver.place is None else [],
                **({"blocks": [as_block(file) for file in files]} if files else {}),
                "keyless": may_reach_keyless(use),
                "most": MOST_MESSAGES,
                "capacity": terms.capacity,
                "seconds": terms.deadline.total_seconds(),
            },
        )


def _bodies(text: str, files: Sequence[OutgoingFile], limit: int) -> list[Any]:
    """What goes out to the own chat: the text's parts, then each file; a text that fits stands below a single one."""
    if text and len(files) == 1 and fits_below(text):
        return [replace(files[0], caption=text).body()]
    return [*parts(text, limit=limit), *(file.body() for file in files)]
