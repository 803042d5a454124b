"""``POST /v1/responses``: what a client may ask, and what of it becomes the message."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from services.gateway.rules.chat_request import SOMETHING, Filled, Name
from services.gateway.rules.openai_chat import ImageData, TextFormat
from services.gateway.rules.openai_errors import Unknown
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
from services.gateway.rules.request_body import FIRST_ONLY, RequestBody, RequestQuery
from shared.domain.api_key import ApiKey

RESPONSE_ID = "^resp_[0-9a-f]{32}$"


class InputText(RequestBody):
    """Words."""

    type: Literal["input_text"]
    text: str


class InputImage(RequestBody):
    """An image beside them, in the request itself."""

    type: Literal["input_image"]
    image_url: ImageData = Field(description="A `data:` URL; nothing is fetched.")


InputPart = Annotated[InputText | InputImage, Field(discriminator="type")]


class SystemItem(RequestBody):
    """What whoever built the client wants the agent to know."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer"]
    content: str | Annotated[list[InputText], FIRST_ONLY]


class UserItem(RequestBody):
    """What a person says."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: str | Annotated[list[InputPart], FIRST_ONLY]


class AssistantItem(RequestBody):
    """What was answered before."""

    type: Literal["message"] = "message"
    role: Literal["assistant"]
    content: str | Annotated[list[dict[str, Any]], FIRST_ONLY]


Item = Annotated[SystemItem | UserItem | AssistantItem, Field(discriminator="role")]


def _asks(items: list[Any]) -> list[Any]:
    if not any(isinstance(item, UserItem) and says_something(text_of(item.content), _images(item)) for item in items):
        raise ValueError("must have a message of the user that is not empty")
    return items


def _images(item: UserItem) -> list[str]:
    parts = item.content if isinstance(item.content, list) else []
    return [part.image_url for part in parts if isinstance(part, InputImage)]


_WORDS = {"type": "string", "pattern": SOMETHING.pattern}
_PARTS = [
    {"properties": {"type": {"const": "input_text"}, "text": _WORDS}},
    {"properties": {"type": {"const": "input_image"}}},
]
_OF_USER = {
    "contains": {
        "properties": {
            "role": {"const": "user"},
            "content": {"anyOf": [_WORDS, {"type": "array", "contains": {"anyOf": _PARTS}}]},
        }
    }
}
Items = Annotated[list[Item], FIRST_ONLY, AfterValidator(_asks), Field(json_schema_extra=_OF_USER)]


class ConversationId(RequestBody):
    """A conversation by its name."""

    id: Name


class TextOptions(RequestBody):
    """In which format the answer comes."""

    format: TextFormat | None = None


class ResponseBody(RequestBody):
    """A response, as OpenAI has it. Other fields of OpenAI's (`temperature`, `reasoning`, `store`, `include`, ...) are
    taken and change nothing: how the agent's model works is configured, and what was said is stored."""

    model: str = Field(description="The agent, by the id that `/v1/models` tells, its name, or `lucyd`.")
    input: Filled | Items
    instructions: str | None = Field(None, description="Put before the message as `[context] ...`.")
    previous_response_id: str | None = Field(None, description="Goes on in the conversation of that response.")
    conversation: Name | ConversationId | None = Field(None, description="Names the conversation.")
    user: Name | None = Field(None, description="Who writes. Each has a conversation of its own.")
    metadata: Metadata | None = None
    stream: bool | None = Field(None, description="Answer as server-sent events.")
    background: Literal[False] | None = None
    tools: NoTools | None = None
    text: TextOptions | None = None
    prompt: None = None
    lucyd: LucydOptions | None = None

    says: ClassVar[Mapping[str, str]] = {
        "background": '"background" must be false: follow the run instead',
        "text": '"text.format" must be text: the agent answers in words',
        "prompt": '"prompt" must be left out: no prompts are stored here',
    }


class FetchQuery(RequestQuery):
    """How a response is to be told that is fetched."""

    stream: Literal["false"] | None = Field(None, description="There is no stream of what was said before.")

    says: ClassVar[Mapping[str, str]] = {"stream": '"stream" must be false: follow the run instead'}


def read_response(
    body: object, *, conversation: str | None = None, most_images: int = MOST_IMAGES
) -> tuple[str, UUID | None, Asked]:
    """The model that is named, the run of the response before, and what is asked. Raises ``BadInput``.

    ``conversation`` is what a header names. A response before this one says itself where it belongs.
    """
    asked = read_openai(ResponseBody, body)
    previous = asked.previous_response_id
    run = None if previous is None else run_of(previous, param="previous_response_id")
    own = asked.conversation.id if isinstance(asked.conversation, ConversationId) else asked.conversation
    named = conversation or own or (asked.metadata and asked.metadata.conversation) or asked.user or None
    turns = [Turn("user", asked.input)] if isinstance(asked.input, str) else [_turn(item) for item in asked.input]
    if asked.instructions:
        turns.insert(0, Turn("context", asked.instructions))
    text, images = compose(turns, remembered=run is not None or named is not None, most_images=most_images)
    options = asked.lucyd or NO_OPTIONS
    return asked.model, run, Asked(text, named, "input", images, stream=bool(asked.stream), options=options)


def run_of(response: str, *, param: str | None = None) -> UUID:
    """The run behind a response's id. Raises ``Unknown``."""
    head, _, digits = response.partition("_")
    try:
        if head != "resp" or len(digits) != 32 or not digits.isalnum():
            raise ValueError
        return UUID(hex=digits)
    except ValueError as fault:
        raise no_such_response(param) from fault


def sender_in(conversation: str, key: ApiKey) -> str | None:
    """Who writes in a conversation of this key's API callers; ``None`` in any other."""
    head = f"http:{key.name}:"
    return conversation.removeprefix(head) if conversation.startswith(head) else None


def no_such_response(param: str | None = None) -> Unknown:
    """There is none of that id, or it belongs to another key."""
    code = "previous_response_not_found" if param else "not_found"
    return Unknown("no such response", param=param, code=code)


def _turn(item: Any) -> Turn:
    match item:
        case UserItem():
            return Turn("user", text_of(item.content), _images(item))
        case AssistantItem():
            return Turn("assistant", text_of(item.content))
        case _:
            return Turn("context", text_of(item.content))
