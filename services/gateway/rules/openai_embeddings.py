"""``POST /v1/embeddings``: what a client may ask."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from services.gateway.rules.openai_turns import read_openai
from services.gateway.rules.request_body import FIRST_ONLY, RequestBody

Texts = Annotated[list[str], FIRST_ONLY, Field(min_length=1)]


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Token = Annotated[int, Field(ge=0, le=2**31 - 1), BeforeValidator(_whole)]
"""A whole number; JSON does not tell 7 from 7.0."""

Tokens = Annotated[list[Token], FIRST_ONLY, Field(min_length=1)]


class EmbeddingsBody(RequestBody):
    """Texts, or their tokens."""

    model: str
    input: str | Texts | Tokens | Annotated[list[Tokens], FIRST_ONLY, Field(min_length=1)]

    says: ClassVar[Mapping[str, str]] = {"input": '"input" must be a text, or a list of texts or of tokens'}


def read_embeddings(body: object) -> EmbeddingsBody:
    """The request out of a JSON body. Raises ``BadInput``."""
    return read_openai(EmbeddingsBody, body)
