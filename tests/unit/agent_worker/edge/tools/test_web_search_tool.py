"""The agent searches the web, at a service that stands in for Brave's."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import orjson
import pytest

from services.agent_worker.edge.tools.web_search import SearchService, WebSearchTool
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.adapters.http.egress import open_egress
from shared.domain.destination import Origin
from tests.raw_provider import CLOSE, Pieces, RawProvider, raw_provider, with_length

TLS = ssl.create_default_context()
KEY = "BSA-the-key-of-the-search"


@contextlib.asynccontextmanager
async def searching(
    *answers: Pieces, key: str | None = KEY, provider: str = "brave", query: str = ""
) -> AsyncIterator[tuple[WebSearchTool, RawProvider]]:
    async with (
        raw_provider(*answers) as service,
        open_egress([Origin("127.0.0.1", service.port)], tls=TLS) as egress,
    ):
        where = SearchService(provider, f"{service.url}/search{query}", key, timedelta(seconds=0.5))
        yield WebSearchTool(egress, where), service


def found(value: Any, status: bytes = b"200 OK", headers: bytes = b"") -> list[bytes | float]:
    return [with_length(orjson.dumps(value), status=status, headers=headers)]


def results(*each: Any) -> dict[str, Any]:
    return {"type": "search", "web": {"results": list(each)}}


CAT = {"title": "A <strong>cat</strong>", "url": "https://cat.example/", "description": "It &amp; its <b>fur</b>."}
DOG = {"title": "A dog", "url": "https://dog.example/", "description": ""}


async def test_results_are_blocks_of_title_address_and_snippet(use: ToolUse) -> None:
    """In the service's order, and its key in the header where it belongs."""
    async with searching(found(results(CAT, DOG))) as (tool, service):
        text = await tool.run({"query": " cats &  dogs ", "count": 5}, use)
        request = service.requests[0]
    assert text == "**A cat**\nhttps://cat.example/\nIt & its fur.\n\n**A dog**\nhttps://dog.example/"
    assert request.startswith(b"GET /search?q=cats+%26+dogs&count=5 HTTP/1.1\r\n")
    assert f"x-subscription-token: {KEY}".encode() in request.lower().replace(KEY.lower().encode(), KEY.encode())


@pytest.mark.parametrize(("count", "asked", "blocks"), [(0, 1, 1), (99, 20, 20), (None, 10, 10)])
async def test_the_number_of_results_has_bounds(count: int | None, asked: int, blocks: int, use: ToolUse) -> None:
    """Whatever the service gives."""
    many = results(*({"url": f"https://{index}.example/"} for index in range(50)))
    async with searching(found(many), query="?lang=en") as (tool, service):
        arguments = {"query": "x"} if count is None else {"query": "x", "count": count}
        assert len((await tool.run(arguments, use)).split("\n\n")) == blocks
        assert f"?lang=en&q=x&count={asked} ".encode() in service.requests[0]


@pytest.mark.parametrize(
    "told",
    [
        {},
        [],
        None,
        "x",
        {"web": None},
        {"web": {"results": {}}},
        results(),
        results(1, None, {}, {"url": 5}, {"url": ""}),
    ],
)
async def test_nothing_found_is_said_and_strange_answers_do_not_break_it(told: Any, use: ToolUse) -> None:
    """The service may change."""
    async with searching(found(told)) as (tool, _):
        assert await tool.run({"query": "x"}, use) == "No results found."


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (found({"error": KEY}, b"429 Slow", b"retry-after: 7\r\n"), "was asked too often (HTTP 429); try again in 7 s"),
        (found({"error": KEY}, b"429 Slow"), "was asked too often (HTTP 429); try again later"),
        (found({"error": KEY}, b"401 No"), "does not accept the API key (HTTP 401)"),
        (found({"error": KEY}, b"403 No"), "does not accept the API key (HTTP 403)"),
        (found({"error": KEY}, b"500 Oh"), "answered with HTTP 500"),
        (found("", b"302 There", b"location: http://127.0.0.1:9/\r\n"), "answered with HTTP 302"),
        ([with_length(KEY.encode())], "did not answer with JSON"),
        ([30.0], "no answer within 0.5 s"),
        ([b"", CLOSE], "the connection broke"),
    ],
)
async def test_what_the_service_refuses_is_told_plainly(
    answer: list[bytes | float], sentence: str, use: ToolUse, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing of what it said, nor the key, in the result or the log."""
    async with searching(answer) as (tool, _):
        with pytest.raises(ToolFailed) as failed:
            await tool.run({"query": "x"}, use)
    assert sentence in str(failed.value)
    assert str(failed.value).startswith("Search failed: ")
    logged = capsys.readouterr()
    assert KEY not in f"{failed.value}{logged.out}{logged.err}{tool!r}"


async def test_a_key_that_the_service_repeats_is_not_shown(use: ToolUse) -> None:
    """Nor one that stands in a page it found."""
    async with searching(found(results({"url": f"https://x.example/{KEY}", "title": KEY}))) as (tool, _):
        assert KEY not in await tool.run({"query": "x"}, use)


@pytest.mark.parametrize(
    ("given", "query", "sentence"),
    [
        ({"key": None}, "x", "No search API key configured"),
        ({"key": ""}, "x", "No search API key configured"),
        ({"provider": "altavista"}, "x", "Unknown search provider: altavista"),
        ({}, "  ", "the query is empty"),
        ({}, "x" * 401, "the query is longer than 400 characters"),
    ],
)
async def test_without_a_key_or_a_question_nobody_is_asked(
    given: dict[str, Any], query: str, sentence: str, use: ToolUse
) -> None:
    """An error result, as any."""
    async with searching(found(results()), **given) as (tool, service):
        with pytest.raises(ToolFailed, match=sentence):
            await tool.run({"query": query}, use)
        assert service.connections == 0
