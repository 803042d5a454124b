"""A client that says its whole body before it listens hears why the body was refused."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripted_model_server import ScriptedModelServer
from tests.stack import TOKEN, Stack, client, model_toml, open_stack

EXTRA = """
[http]
max_body_bytes = 4000000
"""


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with ScriptedModelServer({}).in_thread() as models:
        toml = model_toml("anthropic", models.base_url("anthropic"), extra=EXTRA)
        with open_stack(tmp_path, database_url, redis_url, toml) as opened:
            yield opened


def test_a_refusal_reaches_who_closes_the_connection_after_it(stack: Stack) -> None:
    """Python's own client and many proxies use a connection once. A server that closes it while bytes of the body are
    on their way has it reset, and the answer is lost."""
    with client(stack.gateway()) as http:
        address = str(http.base_url).rstrip("/")

    def status_of(path: str, token: str, size: int) -> int:
        headers, body = {"Authorization": f"Bearer {token}"}, b'{"message": "' + b"x" * size + b'"}'
        request = urllib.request.Request(f"{address}{path}", data=body, headers=headers)  # noqa: S310 - our own
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code

    for _ in range(5):
        assert status_of("/api/v1/chat", TOKEN, 8_000_000) == 413
        assert status_of("/api/v1/chat", "wrong", 8_000_000) == 401
        assert status_of("/api/v1/nowhere", TOKEN, 8_000_000) == 404
        assert status_of("/v1/responses", TOKEN, 8_000_000) == 413
