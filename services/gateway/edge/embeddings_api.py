"""Texts as vectors, for clients of OpenAI."""

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.embed_texts import Embedding
from services.gateway.edge.bodies import Bodies, beside, read_json
from services.gateway.edge.door import key_of
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.chat_request import read_traceparent
from services.gateway.rules.openai_embeddings import EMBEDDERS_ROLE, EmbeddingsBody, pieces_of, read_embeddings
from services.gateway.rules.openai_errors import Unknown
from services.gateway.rules.openai_shapes import EmbeddingList
from services.gateway.rules.reply_shapes import OpenAIProblem
from shared.errors import GiveUp, ModelRejected


@dataclass(frozen=True, slots=True)
class EmbeddingsApi:
    """``/v1/embeddings``; without ``embedding`` none is configured."""

    embedding: Embedding | None
    bodies: Bodies
    body_bytes: int

    def operations(self) -> list[Operation]:
        """What it does."""
        return [
            Operation(
                "POST", "/v1/embeddings", self.embed, "chat", "texts as vectors",
                {
                    200: Reply("a vector for each text", EmbeddingList),
                    404: Reply("no embedder is configured, or none of that name", OpenAIProblem),
                    502: Reply("the embedder refused, or did not answer in time", OpenAIProblem),
                },
                body=EmbeddingsBody, counts_as="work", dialect="openai", tag="openai",
            )
        ]  # fmt: skip

    async def embed(self, request: Request) -> Response:
        """A vector for each text."""
        asked = read_embeddings(await read_json(request, at_most=self.body_bytes))
        if self.embedding is None:
            raise Unknown("no embedder is configured", param=None, code="embedder_not_configured")
        model = self.embedding.model
        if asked.model not in (model, EMBEDDERS_ROLE):
            raise Unknown(f"no such embedder; this one is {model!r}", param="model", code="model_not_found")
        try:
            embedded = await self.embedding.embed(
                pieces_of(asked),
                principal=key_of(request).principal,
                dimensions=asked.dimensions,
                traceparent=read_traceparent(request.headers.get("traceparent")),
            )
        except GiveUp as fault:
            status = 400 if isinstance(fault, ModelRejected) and fault.of_content else 502
            return self.bodies.problem(str(fault), status, dialect="openai")
        told = _as_base64 if asked.encoding_format == "base64" else list
        data = [
            {"object": "embedding", "index": place, "embedding": told(vector)}
            for place, vector in enumerate(embedded.vectors)
        ]
        usage = {"prompt_tokens": embedded.tokens, "total_tokens": embedded.tokens}
        body: dict[str, Any] = {"object": "list", "data": data, "model": model, "usage": usage}
        return await beside(sum(map(len, embedded.vectors)) * 8, self.bodies.foreign, body)


def _as_base64(vector: Sequence[float]) -> str:
    """As OpenAI encodes them: 32-bit floats, little-endian."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
