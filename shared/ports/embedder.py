"""The embedder port: texts in, one vector for each out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from shared.domain.provider import ModelSpec

Piece = str | Sequence[int]
"""A text, or its tokens as the model's own tokenizer has them."""


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """One call. ``call_id`` goes out as the header ``X-Lucyd-Call-Id``, ``traceparent`` as that of the same name.

    ``timeout`` bounds the whole call; ``dimensions`` asks for vectors of that length, where the model has several.
    """

    call_id: UUID
    pieces: Sequence[Piece]
    timeout: timedelta = timedelta(seconds=15)
    dimensions: int | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector for each piece, in their order, all of one length; ``tokens`` is what the provider billed."""

    vectors: Sequence[Sequence[float]]
    tokens: int


class Embedder(Protocol):
    """A model that makes vectors."""

    @property
    def spec(self) -> ModelSpec:
        """What the operator configured."""
        ...

    async def embed(self, request: EmbeddingRequest) -> Embedded:
        """Ask once, without any retry.

        Raises ``TryLater`` on 429, 5xx, connection faults and answers that are not whole, ``ModelTimeout`` when the
        call takes longer than it may, ``ModelRejected`` on anything else the provider refuses.
        """
        ...
