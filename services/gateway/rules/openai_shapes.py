"""What replies of the OpenAI-compatible routes look like, as types."""

from typing import Any, Literal
from uuid import UUID

from services.gateway.rules.reply_shapes import AskedApproval, OpenAIFault, Shape


class Beyond(Shape):
    """What Lucyd knows of a run beyond OpenAI's form. ``waiting``: it asks its person, the next message answers."""

    run_id: UUID
    state: Literal["done", "waiting", "failed", "cancelled", "running"]
    session_id: UUID | None = None
    notices: list[str] | None = None
    approvals: list[AskedApproval] | None = None
    silent: bool | None = None
    model: str | None = None
    cost: float | None = None
    currency: str | None = None
    turns: int | None = None


class Model(Shape):
    """The agent, as a model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Shape):
    """The one there is."""

    object: Literal["list"]
    data: list[Model]


class EmbeddingItem(Shape):
    """One vector: its numbers, or in base64 as 32-bit floats, the lowest byte first."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(Shape):
    """What the embedder has read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(Shape):
    """A vector for each text, in their order."""

    object: Literal["list"]
    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingUsage


class ChatMessage(Shape):
    """What the agent answered."""

    role: Literal["assistant"]
    content: str
    refusal: None


class Choice(Shape):
    """The one answer."""

    index: Literal[0]
    message: ChatMessage
    finish_reason: Literal["stop"]
    logprobs: None


class PromptDetails(Shape):
    """How much of the prompt went through a cache."""

    cached_tokens: int
    cache_write_tokens: int


class CompletionUsage(Shape):
    """What all models have read and written for the run."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class Completion(Shape):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
    lucyd: Beyond


class OutputText(Shape):
    """Words of the answer."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]


class OutputMessage(Shape):
    """The answer."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[OutputText]


class InputDetails(Shape):
    """How much of the input went through a cache."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(Shape):
    """Thinking is part of the output, and not counted by itself."""

    reasoning_tokens: int


class ResponseUsage(Shape):
    """What all models have read and written for the run."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseFault(Shape):
    """Why there is no answer."""

    code: Literal["server_error"]
    message: str


class ResponseReply(Shape):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: float
    status: Literal["completed", "failed", "in_progress", "cancelled", "queued"]
    error: ResponseFault | None
    incomplete_details: None
    instructions: str | None
    metadata: dict[str, Any]
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool
    temperature: float | None
    tool_choice: str
    tools: list[Any]
    top_p: float | None
    previous_response_id: str | None
    store: bool
    usage: ResponseUsage | None
    lucyd: Beyond


class OpenAIRunProblem(Shape):
    """An error in OpenAI's form about a run: it goes on, or has ended without an answer."""

    error: OpenAIFault
    lucyd: dict[str, Any]
