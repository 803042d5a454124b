"""Messages that go out to people: what is asked, and what is answered, as types."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from services.gateway.rules.attachments import AttachmentBody, AttachmentLimits, Base64, Filename, MediaType
from services.gateway.rules.chat_request import SOMETHING, Name, storable
from services.gateway.rules.reply_shapes import Named
from services.gateway.rules.request_body import FIRST_ONLY, RequestBody

LONGEST_TEXT = 40_000
NO_TEXT = f'"text" field is required: something to say, at most {LONGEST_TEXT} characters, unless attachments come'
NO_BYTES = 'each of "attachments" must have "data", its bytes as base64'


class OutboundFile(RequestBody):
    """One file that goes out: as in a message to the agent, or with its bytes under the original's name for them."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["data"], "properties": {"data": {"type": "string"}}},
                {"required": ["data_b64"], "properties": {"data_b64": {"type": "string"}}},
            ]
        }
    )

    content_type: MediaType = Field(description="Its media type.")
    data: Base64 | None = Field(None, description="Its bytes as base64, as in `attachments` of a message to the agent.")
    data_b64: Base64 | None = Field(None, description="The same, as the original called it; `data` wins.")
    filename: Filename | None = Field(None, description="What it is called.")
    is_voice: bool = Field(default=False, description="Whether it is a voice message.")

    @model_validator(mode="after")
    def _has_bytes(self) -> Self:
        if self.data is None and self.data_b64 is None:
            raise ValueError(NO_BYTES)
        return self

    def file(self) -> AttachmentBody:
        """The same as in a message to the agent."""
        return AttachmentBody.model_construct(
            content_type=self.content_type,
            data=self.data if self.data is not None else self.data_b64,
            filename=self.filename,
            is_voice=self.is_voice,
        )


class OutboundBody(RequestBody):
    """What a person is told: a text, or files, or both."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["text"], "properties": {"text": {"type": "string", "pattern": SOMETHING.pattern}}},
                {"required": ["attachments"], "properties": {"attachments": {"type": "array", "minItems": 1}}},
            ]
        }
    )

    text: str | None = Field(
        None,
        description="What they read; required unless attachments come.",
        max_length=LONGEST_TEXT,
        examples=["The tea is ready."],
    )
    channel: Literal["telegram"] = Field("telegram", description="Over which channel.")
    chat: Name | None = Field(
        None,
        description="A chat's id, a conversation, or the operator's name for it. May be missing if there is one only.",
    )
    attachments: (
        Annotated[list[OutboundFile], FIRST_ONLY, Field(json_schema_extra={"maxItems": AttachmentLimits().count})]
        | None
    ) = Field(None, description="Files that go out behind the text; a text that fits stands below a single one.")

    says: ClassVar[Mapping[str, str]] = {
        "text": NO_TEXT,
        "channel": '"channel" must be "telegram": no other is carried out to people',
        "chat": '"chat" must be the name or the id of a chat',
    }

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not SOMETHING.search(self.text or "") and not self.attachments:
            raise ValueError(NO_TEXT)
        return self

    def words(self) -> str:
        """The text, and nothing where it is blank."""
        return storable(self.text) if self.text and SOMETHING.search(self.text) else ""

    def files(self) -> Sequence[AttachmentBody]:
        """The files, not yet decoded."""
        return [each.file() for each in self.attachments or ()]


class OutboundReply(Named):
    """Whether the channel has it. ``delivered`` false: it stands in its line and will be sent."""

    delivered: bool
    conversation: str
    deliveries: list[UUID]


class OutboundProblem(OutboundReply):
    """The same of what was refused, or of which nobody knows whether it arrived."""

    error: str
