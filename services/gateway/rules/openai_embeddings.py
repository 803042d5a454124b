"""``POST /v1/embeddings``: what a client may ask."""

from typing import Annotated

from pydantic import Field

from services.gateway.rules.openai_turns import read_openai
from services.gateway.rules.request_body import RequestBody

Tokens = Annotated[list[int], Field(min_length=1)]


class EmbeddingsBody(RequestBody):
    """Texts, or their tokens."""

    model: str
    input: str | Annotated[list[str] | Tokens | list[Tokens], Field(min_length=1)]


def read_embeddings(body: object) -> EmbeddingsBody:
    """The request out of a JSON body. Raises ``BadInput``."""
    return read_openai(EmbeddingsBody, body)
