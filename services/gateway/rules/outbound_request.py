"""Messages that go out to people: what is asked, and what is answered, as types."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from services.gateway.rules.chat_request import Filled, Name
from services.gateway.rules.reply_shapes import Named
from services.gateway.rules.request_body import RequestBody

LONGEST_TEXT = 40_000


class OutboundBody(RequestBody):
    """What a person is told."""

    text: Filled = Field(description="What they read.", max_length=LONGEST_TEXT)
    channel: Literal["telegram"] = Field("telegram", description="Over which channel.")
    chat: Name | None = Field(
        None,
        description="A chat's id, a conversation, or the operator's name for it. May be missing if there is one only.",
    )
    attachments: list[Any] | None = Field(None, max_length=0, description="None: only text goes out in this version.")

    says: ClassVar[Mapping[str, str]] = {
        "text": f'"text" field is required: something to say, at most {LONGEST_TEXT} characters',
        "channel": '"channel" must be "telegram": no other is carried out to people',
        "chat": '"chat" must be the name or the id of a chat',
        "attachments": '"attachments" can\'t be sent to people in this version, only text',
    }


class OutboundReply(Named):
    """Whether the channel has it. ``delivered`` false: it stands in its line and will be sent."""

    delivered: bool
    conversation: str
    deliveries: list[UUID]


class OutboundProblem(OutboundReply):
    """The same of what was refused, or of which nobody knows whether it arrived."""

    error: str
