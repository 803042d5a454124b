"""The document of the API and its page, as a running gateway sends them."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.stack import Process, open_stack


@pytest.fixture
def gateway(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Process]:
    """One with an agent's name of its own."""
    with open_stack(tmp_path, database_url, redis_url, "[agent]\nname = 'Testbert'\n") as stack:
        yield stack.gateway()


@pytest.mark.parametrize(
    ("path", "media"), [("/openapi.json", "application/json"), ("/docs", "text/html; charset=utf-8")]
)
def test_what_is_known_already_is_not_sent_again(gateway: Process, path: str, media: str) -> None:
    """Open to everybody, and cheap to ask for."""
    first = httpx2.get(gateway.url + path)
    assert (first.status_code, first.headers["Content-Type"]) == (200, media)
    assert first.headers["Cache-Control"] == "no-cache"
    for known in (first.headers["ETag"], f'"other", W/{first.headers["ETag"]}', "*"):
        again = httpx2.get(gateway.url + path, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
    assert httpx2.get(gateway.url + path, headers={"If-None-Match": '"other"'}).content == first.content
    head = httpx2.head(gateway.url + path)
    assert (head.status_code, head.headers["ETag"], head.content) == (200, first.headers["ETag"], b"")


def test_the_page_may_load_nothing_and_run_nothing(gateway: Process) -> None:
    """Somebody reads it in the browser in which they are logged in elsewhere."""
    policy = httpx2.get(f"{gateway.url}/docs").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_document_names_what_this_gateway_serves(gateway: Process) -> None:
    """All of it, itself included."""
    document = httpx2.get(f"{gateway.url}/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert {"/openapi.json", "/docs", "/healthz", "/api/v1/chat"} <= set(document["paths"])
    assert document["paths"]["/api/v1/chat"]["post"]["x-scope"] == "chat"
