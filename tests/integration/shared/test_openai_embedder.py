"""The embedder over HTTP: what goes out, what comes back, and what goes wrong."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.models.openai_embedder import OpenAIEmbedder, open_openai_embedder
from shared.domain.provider import ModelSpec
from shared.errors import ModelRejected, ModelTimeout, TryLater
from shared.ids import new_id
from shared.ports.embedder import EmbeddingRequest, Piece
from tests.embedding_server import KEY, EmbeddingServer, vector_of

ONE = {"object": "embedding", "index": 0, "embedding": [1.0]}


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer().in_thread() as serving:
        yield serving


@pytest.fixture
async def embedder(server: EmbeddingServer) -> AsyncIterator[OpenAIEmbedder]:
    spec = ModelSpec("embeddings", "openai", "small", base_url=f"{server.url}/", api_key=KEY, headers={"X-Team": "a"})
    async with open_openai_embedder(spec) as opened:
        yield opened


def request(*pieces: Piece, **more: Any) -> EmbeddingRequest:
    return EmbeddingRequest(new_id(), pieces, **more)


async def test_each_text_has_its_vector(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    """In the order of the texts, whatever the order of the answer."""
    asked = request("hello", "hi", [1, 2, 3, 4], dimensions=2, traceparent="00-1")
    found = await embedder.embed(asked)
    assert found.vectors == [vector_of("hello", 2), vector_of("hi", 2), vector_of("four", 2)]
    assert found.tokens == 11
    assert server.asked == [
        {"model": "small", "input": ["hello", "hi", [1, 2, 3, 4]], "encoding_format": "float", "dimensions": 2}
    ]
    (headers,) = server.headers
    assert (headers["x-lucyd-call-id"], headers["traceparent"]) == (str(asked.call_id), "00-1")
    assert headers["x-team"] == "a"


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((429, {"error": {"message": "slow down"}}), TryLater, "slow down"),
        ((500, "<html>oops"), TryLater, "500"),
        ((400, {"error": {"message": "too long"}}), ModelRejected, "too long"),
        ((401, {"error": {"message": f"wrong key {KEY}"}}), ModelRejected, r"\*\*\*"),
        ((302, ""), ModelRejected, "302"),
        ((200, "<html>hello"), ModelRejected, "base_url"),
        ((200, "{"), TryLater, "not JSON"),
        ((200, {"error": {"message": "no", "type": "invalid_request_error"}}), ModelRejected, "no"),
        ((200, []), TryLater, "0 are there"),
        ((200, {"data": []}), TryLater, "0 are there"),
        ((200, {"data": [ONE, ONE]}), TryLater, "vectors"),
        ((200, {"data": [{**ONE, "embedding": []}]}), TryLater, "0 are there"),
        ((200, {"data": [{**ONE, "embedding": ["a"]}]}), TryLater, "0 are there"),
        ((200, {"data": [{**ONE, "embedding": [1e300]}]}), TryLater, "0 are there"),
        ((200, {"data": [{**ONE, "index": [0]}]}), TryLater, "0 are there"),
    ],
)
async def test_what_is_no_answer_is_named(
    embedder: OpenAIEmbedder, server: EmbeddingServer, answer: tuple[int, Any], kind: type[Exception], said: str
) -> None:
    """And the key is never repeated."""
    server.answers.append(answer)
    with pytest.raises(kind, match=said) as raised:
        await embedder.embed(request("hello"))
    assert KEY not in str(raised.value)


async def test_vectors_of_several_lengths_are_no_answer(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    """Nothing could be compared by them."""
    server.answers.append((200, {"data": [ONE, {"index": 1, "embedding": [1.0, 2.0]}]}))
    with pytest.raises(TryLater, match="differ in length"):
        await embedder.embed(request("hello", "hi"))


async def test_a_call_that_takes_too_long_is_given_up(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    """A client waits for it."""
    server.answers.append(None)
    with pytest.raises(ModelTimeout, match=r"0\.2 s"):
        await embedder.embed(request("hello", timeout=timedelta(seconds=0.2)))


async def test_an_embedder_that_is_not_there_may_come_back(server: EmbeddingServer) -> None:
    """The address stays unsaid."""
    spec = ModelSpec("embeddings", "openai", "small", base_url="http://127.0.0.1:1/v1")
    async with open_openai_embedder(spec) as embedder:
        with pytest.raises(TryLater, match="ConnectError"):
            await embedder.embed(request("hello"))
