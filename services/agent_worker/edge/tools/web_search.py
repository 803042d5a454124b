"""Searching the web."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import orjson

from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.page_text import page_text
from shared.domain.effect import ToolSpec
from shared.ports.egress import Egress, EgressFailed, EgressRefused, Question

BRAVE = "https://api.search.brave.com/res/v1/web/search"
DEFAULT_COUNT = 10
MOST_RESULTS = 20
LONGEST_QUERY = 400
MOST_BYTES = 2_000_000
_LONGEST_SNIPPET = 1_000

_SPEC = ToolSpec(
    name="web_search",
    description="Search the web. Gives title, address and a snippet of each result; read the pages with web_fetch.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": f"What to look for, up to {LONGEST_QUERY} characters."},
            "count": {
                "type": "integer",
                "description": f"How many results, up to {MOST_RESULTS}.",
                "default": DEFAULT_COUNT,
            },
        },
        "required": ["query"],
    },
    effect="read",
)


@dataclass(frozen=True, slots=True)
class SearchService:
    """Who is asked, under which key, and how long one search may take. ``url`` is the operator's."""

    provider: str
    url: str = field(repr=False)
    key: str | None = field(repr=False)
    timeout: timedelta


class WebSearchTool:
    """Asks the search service of its operator. Neither its key nor what it says of a fault is ever in a result."""

    def __init__(self, egress: Egress, service: SearchService) -> None:
        self._egress = egress
        self._service = service

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The results, one block each. Raises ``ToolFailed`` without a key, and for what the service refuses."""
        query = " ".join(str(arguments["query"]).split())
        if not query:
            raise ToolFailed("the query is empty")
        if len(query) > LONGEST_QUERY:
            raise ToolFailed(f"the query is longer than {LONGEST_QUERY} characters")
        count = max(1, min(int(arguments.get("count", DEFAULT_COUNT)), MOST_RESULTS))
        found = await self._ask(query, count)
        blocks = [block for each in found[:count] if (block := _block(each))]
        text = "\n\n".join(blocks) or "No results found."
        return text.replace(self._service.key, "[key]") if self._service.key else text

    async def _ask(self, query: str, count: int) -> list[Any]:
        service = self._service
        if service.provider != "brave":
            raise ToolFailed(f"Unknown search provider: {service.provider[:60]}")
        if not service.key:
            raise ToolFailed("No search API key configured")
        asked = urlencode({"q": query, "count": count}, errors="replace")
        question = Question(
            f"{service.url}{'&' if '?' in service.url else '?'}{asked}",
            service.timeout,
            headers={"Accept": "application/json", "X-Subscription-Token": service.key},
            most_bytes=MOST_BYTES,
            redirects=0,
        )
        try:
            answer = await self._egress.ask(question)
        except (EgressRefused, EgressFailed) as fault:
            raise ToolFailed(f"Search failed: {fault}") from fault
        if answer.status != 200:
            raise ToolFailed(_refusal(answer.status, answer.headers.get("retry-after", "")))
        return _results(answer.body)


def _refusal(status: int, retry_after: str) -> str:
    if status == 429:
        wait = f" in {retry_after} s" if retry_after.isdecimal() and len(retry_after) < 6 else " later"
        return f"Search failed: the search service was asked too often (HTTP 429); try again{wait}"
    if status in (401, 403):
        return f"Search failed: the search service does not accept the API key (HTTP {status})"
    return f"Search failed: the search service answered with HTTP {status}"


def _results(body: bytes) -> list[Any]:
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ToolFailed("Search failed: the search service did not answer with JSON") from error
    web = told.get("web") if isinstance(told, dict) else None
    results = web.get("results") if isinstance(web, dict) else None
    return results if isinstance(results, list) else []


def _block(result: Any) -> str:
    """Title, address, snippet; nothing for what has no address."""
    if not isinstance(result, dict) or not isinstance(result.get("url"), str) or not result["url"]:
        return ""
    title, snippet = (_plain(result.get(name)) for name in ("title", "description"))
    address = "".join(result["url"].split())[:2_000]
    return "\n".join(line for line in (f"**{title or address}**", address, snippet) if line)


def _plain(value: Any) -> str:
    """Services mark the words that were found with tags."""
    if not isinstance(value, str):
        return ""
    return " ".join(page_text(value[: 4 * _LONGEST_SNIPPET])[1].split())[:_LONGEST_SNIPPET]
