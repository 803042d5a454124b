"""Embeddings over HTTP, with the SDK of OpenAI, and what they cost."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import openai
import psycopg
import pytest

from tests.api_keys import bearer, make_key
from tests.embedding_server import KEY, EmbeddingServer, vector_of
from tests.stack import TOKEN, Process, Stack, client, open_stack, wait_until

TOML = """
[models.primary]
provider = "offline"
model = "offline"

[models.embeddings]
provider = "openai"
model = "small"
base_url = "{url}"
api_key_env = "EMBEDDER_KEY"
cost_per_mtok = [20.0, 0.0, 0.0, 0.0]

[memory]
embedding_timeout = 1.0
"""


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer().in_thread() as serving:
        yield serving


@pytest.fixture
def stack(server: EmbeddingServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, TOML.format(url=server.url)) as opened:
        yield opened


@pytest.fixture
def gateway(stack: Stack) -> Process:
    stack.environment["EMBEDDER_KEY"] = KEY
    return stack.gateway()


@pytest.fixture
def ai(gateway: Process) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=TOKEN, max_retries=0) as opened:
        yield opened


def booked(stack: Stack) -> list[tuple[Any, ...]]:
    with psycopg.connect(stack.database_url) as database:
        return database.execute(
            "select principal, call_type, model, input_tokens, cost, run from costs order by at"
        ).fetchall()


def test_texts_become_vectors_and_are_paid(ai: openai.OpenAI, stack: Stack, gateway: Process) -> None:
    """One for each, as numbers or as OpenAI's SDK asks for them by itself: packed."""
    forms: tuple[dict[str, Any], ...] = ({}, {"encoding_format": "float"}, {"encoding_format": "base64"})
    for more in forms:
        made: Any = ai.embeddings.create(model="small", input=["hello", "hi"], **more)
        assert [each.embedding for each in made.data if not isinstance(each.embedding, str)] in (
            [vector_of("hello"), vector_of("hi")],
            [],  # the packed ones, asked for by name, stay packed
        )
        assert (made.model, made.usage.prompt_tokens) == ("small", 7)
    short: Any = ai.embeddings.create(model="embeddings", input=[1, 2, 3], dimensions=2)
    assert short.data[0].embedding == vector_of("abc", 2)
    seven = ("key:default", "embedding", "small", 7, Decimal("0.00014"), None)
    assert booked(stack) == [seven, seven, seven, (*seven[:3], 3, Decimal("0.00006"), None)]
    with client(gateway) as http:
        (model,) = http.get("/api/v1/cost?period=today").json()["models"]
    assert (model["model"], model["calls"], model["input_tokens"]) == ("small", 4, 24)


def test_each_key_pays_its_own(gateway: Process, stack: Stack) -> None:
    """And needs the scope that lets it ask at all."""
    asked = {"model": "small", "input": "hello"}
    with client(gateway) as http:
        reader = bearer(make_key(stack.database_url, "r", "read"))
        talker = bearer(make_key(stack.database_url, "t", "chat"))
        assert http.post("/v1/embeddings", json=asked, headers=reader).status_code == 403
        assert http.post("/v1/embeddings", json=asked, headers=talker).status_code == 200
    assert [row[0] for row in booked(stack)] == ["key:t"]


def test_what_can_not_be_embedded_is_refused_in_the_form_of_openai(
    ai: openai.OpenAI, server: EmbeddingServer, stack: Stack
) -> None:
    """Whoever is to blame is told by the status; nothing is booked."""
    with pytest.raises(openai.NotFoundError, match="no such embedder; this one is 'small'") as unknown:
        ai.embeddings.create(model="large", input="hello")
    assert unknown.value.code == "model_not_found"
    nothing: list[Any] = ["", [], ["", "a"], [[]]]
    for wrong in nothing:
        with pytest.raises(openai.BadRequestError, match="input"):
            ai.embeddings.create(model="small", input=wrong)
    for answer, kind, said in (
        ((400, {"error": {"message": "too long"}}), openai.BadRequestError, "too long"),
        ((401, {"error": {"message": f"bad {KEY}"}}), openai.InternalServerError, "refused the key"),
        ((503, {}), openai.InternalServerError, "503"),
        (None, openai.InternalServerError, "within 1 s"),
    ):
        server.answers.append(answer)
        with pytest.raises(kind, match=said) as refused:
            ai.embeddings.create(model="small", input="hello")
        assert KEY not in str(refused.value)
    assert booked(stack) == []


def test_what_postgres_could_not_take_is_booked_later(gateway: Process, stack: Stack) -> None:
    """The call is paid at the provider, whatever becomes of us."""
    with psycopg.connect(stack.database_url) as database, client(gateway) as http:
        database.execute("lock table costs in access exclusive mode")
        made = http.post("/v1/embeddings", json={"model": "small", "input": "hello"}, timeout=20)
        assert made.status_code == 200
        database.rollback()
    wait_until(lambda: [row[3] for row in booked(stack)] == [5], "it is booked", within=20)


def test_without_an_embedder_there_are_none(tmp_path: Path, database_url: str, redis_url: str) -> None:
    """It says so, whatever the name."""
    with open_stack(tmp_path, database_url, redis_url, "") as stack, client(stack.gateway()) as http:
        refused: httpx2.Response = http.post("/v1/embeddings", json={"model": "small", "input": "hello"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "embedder_not_configured")
