"""``POST /v1/embeddings``: what a client may ask."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from services.gateway.rules.openai_turns import read_openai
from services.gateway.rules.request_body import FIRST_ONLY, WHOLE, RequestBody
from shared.ports.embedder import Piece

MOST = 2048
"""Texts of one request, as at OpenAI."""

EMBEDDERS_ROLE = "embeddings"
"""The embedder by its role in the configuration, for who does not know its name."""

Texts = Annotated[list[Annotated[str, Field(min_length=1)]], FIRST_ONLY, Field(min_length=1, max_length=MOST)]


Token = Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE]
Tokens = Annotated[list[Token], FIRST_ONLY, Field(min_length=1)]


class EmbeddingsBody(RequestBody):
    """Texts, or their tokens."""

    model: str
    input: (
        Annotated[str, Field(min_length=1)]
        | Texts
        | Tokens
        | Annotated[list[Tokens], FIRST_ONLY, Field(min_length=1, max_length=MOST)]
    )
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=65_536), WHOLE] | None = Field(
        None, description="As long a vector, where the model has several."
    )
    user: str | None = Field(None, description="Taken, and not used.")

    says: ClassVar[Mapping[str, str]] = {
        "input": f'"input" must be a text, or a list of at most {MOST} texts or of tokens, none of them empty',
        "encoding_format": '"encoding_format" must be "float" or "base64"',
        "dimensions": '"dimensions" must be a positive number',
    }


def pieces_of(asked: EmbeddingsBody) -> Sequence[Piece]:
    """The texts, or what stands for them, each of which has a vector of its own."""
    given = asked.input
    if isinstance(given, str):
        return [given]
    if isinstance(given[0], int):
        return [cast(Sequence[int], given)]
    return cast(Sequence[Piece], given)


def read_embeddings(body: object) -> EmbeddingsBody:
    """The request out of a JSON body. Raises ``BadInput``."""
    return read_openai(EmbeddingsBody, body)
