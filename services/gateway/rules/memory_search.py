"""What may be asked of memory, and what is answered."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AwareDatetime, Field

from services.gateway.rules.chat_request import SOMETHING, Filled, Name, address_of
from services.gateway.rules.reply_shapes import Named, Shape
from services.gateway.rules.request_body import Number, RequestQuery
from shared.domain.api_key import ApiKey
from shared.domain.memory import Remembered
from shared.domain.person import Identity, People

LONGEST_QUERY = 2000
MOST_FOUND = 100
DEFAULT_SENDER = "default"
_SAYS = f'"q" must have something in it, and at most {LONGEST_QUERY} characters'


class MemoryQuery(RequestQuery):
    """What is looked for, and whose."""

    q: Annotated[Filled, Field(max_length=LONGEST_QUERY, json_schema_extra={"pattern": SOMETHING.pattern})] = Field(
        description="Names and words to look for.", examples=["What does Anna drink?"]
    )
    sender: Name = Field(
        "", description="Whose memory, as in `/api/v1/chat`: each sender of a named key has their own."
    )
    limit: Number = Field(10, ge=1, le=MOST_FOUND, description="Of each kind at most so many.")

    says: ClassVar[Mapping[str, str]] = {"q": _SAYS}


class FactShape(Shape):
    """Something that holds of an entity; ``confidence`` is from 0 to 1."""

    entity: str
    attribute: str
    value: str
    confidence: float


class EpisodeShape(Shape):
    """What a conversation was about."""

    at: AwareDatetime
    summary: str
    topics: list[str]
    decisions: list[str]
    emotional_tone: str


class PassageShape(Shape):
    """Whole lines of a workspace file; both lines are counted from 1 and in it."""

    path: str
    start_line: int
    end_line: int
    text: str


class CommitmentShape(Shape):
    """What somebody has promised and not yet done."""

    id: int
    who: str
    what: str
    deadline: AwareDatetime | None


class MemoryReply(Named):
    """What was found, the best first; of commitments all that are open, the most urgent first."""

    facts: list[FactShape]
    episodes: list[EpisodeShape]
    passages: list[PassageShape]
    commitments: list[CommitmentShape]


def whose_memory(key: ApiKey, sender: str) -> Identity:
    """Whom the runs of a message by that sender would be for."""
    sender = sender or DEFAULT_SENDER
    conversation = address_of("http", sender, key=key).conversation
    # Over a key nobody comes as somebody of Telegram: who may write there makes no difference.
    return People().identity(principal=key.principal, sender=sender, conversation=conversation)


def memory_body(found: Remembered) -> dict[str, Any]:
    """The reply of GET /api/v1/memory/search."""
    return {
        "facts": [
            {"entity": each.entity, "attribute": each.attribute, "value": each.value, "confidence": each.confidence}
            for each in found.facts
        ],
        "episodes": [
            {
                "at": each.at.isoformat(),
                "summary": each.summary,
                "topics": list(each.topics),
                "decisions": list(each.decisions),
                "emotional_tone": each.emotional_tone,
            }
            for each in found.episodes
        ],
        "passages": [
            {"path": each.path, "start_line": each.start_line, "end_line": each.end_line, "text": each.text}
            for each in found.passages
        ],
        "commitments": [
            {
                "id": each.id,
                "who": each.who,
                "what": each.what,
                "deadline": each.deadline.isoformat() if each.deadline else None,
            }
            for each in found.commitments
        ],
    }
