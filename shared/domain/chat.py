"""What is said in a conversation, in no vendor's words.

These are plain dictionaries, because they are stored as they are (``messages.body``) and read far more often than made.
Roles and keys are those of the original: user messages carry ``content``, assistant messages carry ``text``.
"""

from typing import Any, Literal, NotRequired, TypedDict


class TextBlock(TypedDict):
    """A piece of text inside a user message."""

    type: Literal["text"]
    text: str


class ImageBlock(TypedDict):
    """An image inside a user message; ``data`` is base64 without line breaks."""

    type: Literal["image"]
    media_type: str
    data: str


class BlobBlock(TypedDict):
    """An attachment inside a stored user message: its bytes are a row of ``blobs``, loaded when a model is shown them.

    ``text`` says it in words, for whoever can't see or no longer has it: a line, and what stands in a document.
    """

    type: Literal["blob"]
    id: str
    content_type: str
    filename: str
    size: int
    text: str


ContentBlock = TextBlock | ImageBlock | BlobBlock


class ToolCall(TypedDict):
    """What the model asked for. ``arguments`` is ``{"raw": text}`` when its JSON could not be read."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolResult(TypedDict):
    """What came of one call; errors are ordinary results that begin with ``Error``.

    ``images`` are stored by reference, like those of a user message; ``content`` tells of them in words. Errors have
    none: not every provider takes them there.
    """

    tool_use_id: str
    content: str
    is_error: NotRequired[bool]
    images: NotRequired[list[ContentBlock]]


class Native(TypedDict):
    """An answer's content exactly as its provider sent it, kept only where replay must be exact (signed thinking)."""

    provider: str
    content: list[dict[str, Any]]


class UserMessage(TypedDict):
    """What a person or an event said. ``received_at`` is ISO 8601 in UTC; ``warning`` is shown before the text;
    ``prepared``: what came with it was read by plugins."""

    role: Literal["user"]
    content: str | list[ContentBlock]
    received_at: NotRequired[str]
    warning: NotRequired[str | None]
    prepared: NotRequired[bool]


class AssistantMessage(TypedDict):
    """What the model answered. ``thinking`` is readable text; ``native`` replays signed blocks to the same provider."""

    role: Literal["assistant"]
    text: str
    tool_calls: NotRequired[list[ToolCall]]
    thinking: NotRequired[str]
    native: NotRequired[Native]


class ToolResultsMessage(TypedDict):
    """The results of all calls of the answer before it, in the order of the calls."""

    role: Literal["tool_results"]
    results: list[ToolResult]


Message = UserMessage | AssistantMessage | ToolResultsMessage

CacheTier = Literal["stable", "semi_stable", "dynamic"]


class SystemBlock(TypedDict):
    """One block of the system prompt; ``tier`` says how long it stays the same."""

    tier: CacheTier
    text: str
