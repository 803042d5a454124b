"""What a client of OpenAI says in one request, as the one message that the agent is to answer.

Lucyd keeps the history of a conversation itself. Of a list of turns the last ones of the user, after the last answer,
are the new message; what systems and developers say is context. The other turns are read only where there is no
conversation to remember them: then they are context, too, and their images come along. What tools of the client have
said after the message no conversation remembers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from services.gateway.rules.attachments import AttachmentLimits, attachment_from_data_url
from services.gateway.rules.chat_request import LONGEST_NAME, SOMETHING, UNFIT, Name, Tier, storable
from services.gateway.rules.openai_errors import BadParameter
from services.gateway.rules.request_body import FIRST_ONLY, BadField, RequestBody, read_as
from shared.domain.attachment import Attachment
from shared.domain.run import WhenBusy
from shared.errors import BadInput

Model = TypeVar("Model", bound=RequestBody)

MOST_IMAGES = AttachmentLimits().count
SAID_BEFORE = "[context] Said before in this conversation:"
SAID_SINCE = "[context] Said since then:"
NOT_SHOWN = "[an image that is not shown again]"


def _nothing(items: list[Any]) -> list[Any]:
    if items:
        raise ValueError("must be empty: the agent has tools of its own, and calls none of its client's")
    return items


NoTools = Annotated[list[Any], FIRST_ONLY, AfterValidator(_nothing), Field(json_schema_extra={"maxItems": 0})]
"""Tools that a client brings; there can be none, since nobody would call them."""


class LucydOptions(RequestBody):
    """What Lucyd takes beyond OpenAI's fields."""

    tools: bool = Field(
        default=False, description="In a stream: tell which tools are used, in pieces with a field `lucyd`."
    )
    tier: Tier | None = Field(None, description="Which workspace files are shown; `full` when it is left out.")
    when_busy: WhenBusy = Field("queue", description="What is to happen while an earlier message is answered.")


NO_OPTIONS = LucydOptions.model_validate({})


class Metadata(RequestBody):
    """Of what a client notes about a request one thing is read."""

    conversation: Name | None = Field(None, description="Names the conversation, before `user` does.")


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of the list: who says it, in words, and the URLs of its images."""

    role: Literal["context", "user", "assistant", "tool"]
    text: str
    images: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the agent is to answer, and where. ``conversation`` ``None``: a new one, for this request alone. ``field``:
    the one that it was said in."""

    text: str
    conversation: str | None
    field: str
    images: Sequence[str] = ()
    stream: bool = False
    with_usage: bool = False
    options: LucydOptions = NO_OPTIONS


def compose(turns: Sequence[Turn], *, remembered: bool, most_images: int) -> tuple[str, Sequence[str]]:
    """The message, and the images in it. ``remembered``: the conversation has the earlier turns.

    Of earlier images the newest come along, so that with those of the message they are not more than ``most_images``.
    Turns that say nothing are not told, but an answer without words is one: what stands before it was answered.
    """
    said = [turn for turn in turns if turn.role in ("assistant", "tool") or (turn.role == "user" and _speaks(turn))]
    end = max((place for place, turn in enumerate(said) if turn.role == "user"), default=-1) + 1
    begin = end
    while begin > 0 and said[begin - 1].role == "user":
        begin -= 1
    new, earlier, since = said[begin:end], list(filter(_speaks, said[:begin])), list(filter(_speaks, said[end:]))
    images = [image for turn in new for image in turn.images]
    lines = [f"[context] {turn.text}" for turn in turns if turn.role == "context" and turn.text.strip()]
    if remembered:
        since = [turn for turn in since if turn.role == "tool"]
    elif earlier:
        before = [image for turn in earlier for image in turn.images]
        shown = min(len(before), max(0, most_images - len(images)))
        lines.append("\n".join([SAID_BEFORE, *_retold(earlier, left_out=len(before) - shown), ""]))
        images = [*before[len(before) - shown :], *images]
    lines.append("\n\n".join(turn.text for turn in new if turn.text.strip()))
    if since:
        lines.append("\n".join(["", SAID_SINCE, *_retold(since)]))
    return storable("\n".join(lines)), images


def _speaks(turn: Turn) -> bool:
    return says_something(turn.text, turn.images)


def _retold(turns: Sequence[Turn], *, left_out: int = 0) -> list[str]:
    """Turns as lines. Images are numbered as they come with the message, but for so many of the first."""
    lines: list[str] = []
    number = -left_out
    for turn in turns:
        words = [turn.text] if turn.text.strip() else []
        for _ in turn.images:
            number += 1
            words.append(f"[image {number}]" if number > 0 else NOT_SHOWN)
        lines.append(f"{turn.role}: {' '.join(words)}")
    return lines


def says_something(text: str, images: Sequence[object] = ()) -> bool:
    """Whether there is anything to answer: white space is nothing."""
    return bool(images) or SOMETHING.search(text) is not None


def read_openai(model: type[Model], value: object) -> Model:
    """As ``read_as``; what it raises names the field."""
    try:
        return read_as(model, value)
    except BadField as fault:
        raise BadParameter(str(fault), param=fault.field or None) from fault


def read_conversation_header(value: str | None) -> str | None:
    """``X-Lucyd-Conversation``, UTF-8 in its bytes. Raises ``BadInput``."""
    if value is None:
        return None
    try:
        name = value.encode("latin-1").decode().strip()
    except UnicodeError as fault:
        raise BadInput("X-Lucyd-Conversation must be UTF-8") from fault
    if len(name) > LONGEST_NAME or UNFIT.search(name):
        raise BadInput(f"X-Lucyd-Conversation must be at most {LONGEST_NAME} characters, without control characters")
    return name or None


def images_of(urls: Sequence[str], limits: AttachmentLimits, *, field: str) -> tuple[Attachment, ...]:
    """The images of a message, decoded. Raises ``BadInput``, which names the ``field`` that they came in."""
    try:
        if len(urls) > limits.count:
            raise BadInput(f"a message may have at most {limits.count} images, and this one has {len(urls)}")
        return tuple(
            attachment_from_data_url(url, where=f"image {number}", limits=limits)
            for number, url in enumerate(urls, start=1)
        )
    except BadInput as fault:
        raise BadParameter(str(fault), param=field) from fault


def text_of(parts: Sequence[BaseModel | Mapping[str, Any]] | str | None) -> str:
    """The words of a content: as they are, or those of its parts."""
    if parts is None or isinstance(parts, str):
        return parts or ""
    texts = (part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
