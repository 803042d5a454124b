"""``POST /v1/chat/completions``: what a client may ask, and what of it becomes the message."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from services.gateway.rules.chat_request import SOMETHING, Name
from services.gateway.rules.openai_turns import (
    MOST_IMAGES,
    NO_OPTIONS,
    Asked,
    LucydOptions,
    Metadata,
    NoTools,
    Turn,
    compose,
    read_openai,
    says_something,
    text_of,
)
from services.gateway.rules.request_body import FIRST_ONLY, WHOLE, RequestBody

IMAGE_URL = "^data:image/[A-Za-z0-9.+-]{1,100}(?:;[^,;]{0,200}){0,5};base64,"
_WHOLE = f"{IMAGE_URL}(?:[A-Za-z0-9+/]{{4}})*(?:[A-Za-z0-9+/]{{4}}|[A-Za-z0-9+/]{{3}}=|[A-Za-z0-9+/]{{2}}==)$"


def _an_image(url: str) -> str:
    if not re.match(IMAGE_URL, url):
        raise ValueError("must be a data: URL with an image as base64; nothing is fetched from elsewhere")
    return url


ImageData = Annotated[str, AfterValidator(_an_image), Field(json_schema_extra={"pattern": _WHOLE})]
"""An image as a ``data:`` URL. What follows its head is looked at when it is decoded."""


class ImageUrl(RequestBody):
    """An image, in the request itself."""

    url: ImageData = Field(description="A `data:` URL; nothing is fetched.")


class TextPart(RequestBody):
    """Words."""

    type: Literal["text"]
    text: str


class ImagePart(RequestBody):
    """An image beside them."""

    type: Literal["image_url"]
    image_url: ImageUrl


UserPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class SystemMessage(RequestBody):
    """What whoever built the client wants the agent to know."""

    role: Literal["system", "developer"]
    content: str | Annotated[list[TextPart], FIRST_ONLY]


class UserMessage(RequestBody):
    """What a person says."""

    role: Literal["user"]
    content: str | Annotated[list[UserPart], FIRST_ONLY]


class AssistantMessage(RequestBody):
    """What was answered before."""

    role: Literal["assistant"]
    content: str | Annotated[list[dict[str, Any]], FIRST_ONLY] | None = None


class ToolMessage(RequestBody):
    """What a tool of the client said before."""

    role: Literal["tool", "function"]
    content: str | Annotated[list[dict[str, Any]], FIRST_ONLY] | None = None


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def _asks(messages: list[Any]) -> list[Any]:
    if not any(
        isinstance(each, UserMessage) and says_something(text_of(each.content), _images(each)) for each in messages
    ):
        raise ValueError("must have a message of the user that is not empty")
    return messages


def _images(message: UserMessage) -> list[str]:
    parts = message.content if isinstance(message.content, list) else []
    return [part.image_url.url for part in parts if isinstance(part, ImagePart)]


_WORDS = {"type": "string", "pattern": SOMETHING.pattern}
_PARTS = [
    {"properties": {"type": {"const": "text"}, "text": _WORDS}},
    {"properties": {"type": {"const": "image_url"}}},
]
_OF_USER: dict[str, Any] = {
    "contains": {
        "properties": {
            "role": {"const": "user"},
            "content": {"anyOf": [_WORDS, {"type": "array", "contains": {"anyOf": _PARTS}}]},
        }
    },
    "examples": [[{"role": "user", "content": "Hello"}]],
}


class StreamOptions(RequestBody):
    """How a stream is told."""

    include_usage: bool | None = Field(None, description="One piece more before the end, with the tokens.")


class TextFormat(RequestBody):
    """The one format there is."""

    type: Literal["text"]


class CompletionBody(RequestBody):
    """A chat completion, as OpenAI has it. Other fields of OpenAI's (`temperature`, `max_tokens`, `stop`, `seed`,
    `tool_choice`, ...) are taken and change nothing: how the agent's model works is configured."""

    model: str = Field(description="The agent, by the id that `/v1/models` tells, its name, or `lucyd`.")
    messages: Annotated[list[Message], FIRST_ONLY, AfterValidator(_asks), Field(json_schema_extra=_OF_USER)]
    user: Name | None = Field(None, description="Who writes. Each has a conversation of its own.")
    metadata: Metadata | None = None
    stream: bool | None = Field(None, description="Answer as server-sent events.")
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1), WHOLE] | None = None
    tools: NoTools | None = None
    functions: NoTools | None = None
    response_format: TextFormat | None = None
    modalities: Annotated[list[Literal["text"]], FIRST_ONLY] | None = None
    logprobs: Literal[False] | None = None
    lucyd: LucydOptions | None = None

    says: ClassVar[Mapping[str, str]] = {
        "n": '"n" must be 1: the agent gives one answer',
        "response_format": '"response_format" must be text: the agent answers in words',
        "modalities": '"modalities" must be text alone',
        "logprobs": '"logprobs" are not known',
    }


def read_completion(
    body: object, *, conversation: str | None = None, most_images: int = MOST_IMAGES
) -> tuple[str, Asked]:
    """The model that is named and what is asked; ``conversation`` is what a header names, before all else.

    Raises ``BadInput``.
    """
    asked = read_openai(CompletionBody, body)
    named = conversation or (asked.metadata and asked.metadata.conversation) or asked.user or None
    turns = [_turn(message) for message in asked.messages]
    text, images = compose(turns, remembered=named is not None, most_images=most_images)
    return asked.model, Asked(
        text,
        named,
        "messages",
        images,
        stream=bool(asked.stream),
        with_usage=bool(asked.stream_options and asked.stream_options.include_usage),
        options=asked.lucyd or NO_OPTIONS,
    )


def _turn(message: Any) -> Turn:
    match message:
        case UserMessage():
            return Turn("user", text_of(message.content), _images(message))
        case AssistantMessage():
            return Turn("assistant", text_of(message.content))
        case ToolMessage():
            return Turn("tool", text_of(message.content))
        case _:
            return Turn("context", text_of(message.content))
