"""An embedder behind OpenAI's ``POST /embeddings``, and the many servers that speak it.

https://platform.openai.com/docs/api-reference/embeddings/create
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson

from shared.adapters.models.faults import broken_answer, fault_of_error, fault_of_status, lost_connection
from shared.adapters.models.sender import CALL_ID_HEADER, TRACEPARENT_HEADER
from shared.adapters.models.vendor_call import CONNECTION, refusal_of, secrets_of
from shared.domain.provider import ModelSpec
from shared.errors import ModelRejected, ModelTimeout
from shared.ports.embedder import Embedded, EmbeddingRequest

LARGEST = 3.4e38
"""Of a 32-bit float, as which vectors are kept and told."""

VENDOR_URL = "https://api.openai.com/v1"


class OpenAIEmbedder:
    """``Embedder`` of the ports. Redirects are not followed: the key would go along."""

    def __init__(self, spec: ModelSpec, client: httpx2.AsyncClient) -> None:
        self._spec = spec
        self._client = client
        self._url = f"{(spec.base_url or VENDOR_URL).rstrip('/')}/embeddings"

    @property
    def spec(self) -> ModelSpec:
        """What the operator configured."""
        return self._spec

    async def embed(self, request: EmbeddingRequest) -> Embedded:
        """See ``Embedder.embed``."""
        body: dict[str, Any] = {"model": self._spec.model, "input": request.pieces, "encoding_format": "float"}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        headers = {"Content-Type": "application/json", CALL_ID_HEADER: str(request.call_id)}
        if request.traceparent is not None:
            headers[TRACEPARENT_HEADER] = request.traceparent
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                reply = await self._client.post(self._url, content=orjson.dumps(body), headers=headers)
        except TimeoutError as error:
            seconds = f"{request.timeout.total_seconds():g}"
            raise ModelTimeout(f"The embedder did not finish its answer within {seconds} s.") from error
        except httpx2.HTTPError as error:
            raise lost_connection(error) from error
        told = _told(reply)
        secrets, refusal = secrets_of(self._spec), refusal_of(self._spec)
        if reply.status_code >= 300:
            raise fault_of_status(reply.status_code, told, reply.headers, secrets=secrets, refusal=refusal)
        if isinstance(told, Mapping) and told.get("error"):
            raise fault_of_error(told["error"], secrets=secrets, refusal=refusal)
        return _embedded(told, len(request.pieces))


@asynccontextmanager
async def open_openai_embedder(spec: ModelSpec) -> AsyncIterator[OpenAIEmbedder]:
    """The embedder with its own connections, closed on leaving."""
    key = {"Authorization": f"Bearer {spec.api_key}"} if spec.api_key else {}
    async with httpx2.AsyncClient(timeout=CONNECTION, headers={**key, **spec.headers}) as client:
        yield OpenAIEmbedder(spec, client)


def _told(reply: httpx2.Response) -> Any:
    try:
        return orjson.loads(reply.content)
    except orjson.JSONDecodeError as error:
        if reply.status_code >= 300:
            return reply.text.strip()
        if reply.content.lstrip().startswith(b"<"):
            raise ModelRejected("The embedder answered with a web page: is its base_url right?") from error
        raise broken_answer("it is not JSON") from error


def _embedded(told: Any, count: int) -> Embedded:
    """The vectors by their ``index``; raises ``TryLater`` unless there is one for each piece, all of one length."""
    data = told.get("data") if isinstance(told, Mapping) else None
    items = [item for item in data if isinstance(item, Mapping)] if isinstance(data, list) else []
    places = [item.get("index", at) for at, item in enumerate(items)]
    by_place = {
        place: _vector(item.get("embedding"))
        for place, item in zip(places, items, strict=True)
        if isinstance(place, int)
    }
    vectors = [vector for at in range(count) if (vector := by_place.get(at)) is not None]
    if len(vectors) != count or len(items) != count:
        raise broken_answer(f"{count} vectors were asked for, and {len(vectors)} are there")
    if len({len(vector) for vector in vectors}) > 1:
        raise broken_answer("the vectors differ in length")
    usage = told.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return Embedded(vectors, tokens if isinstance(tokens, int) and tokens > 0 else 0)


def _vector(value: Any) -> Sequence[float] | None:
    is_one = isinstance(value, list) and bool(value) and all(isinstance(each, int | float) for each in value)
    return value if is_one and all(abs(each) < LARGEST for each in value) else None
