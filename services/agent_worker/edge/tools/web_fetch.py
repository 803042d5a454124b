"""Reading a page of the web."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.charset import decoded
from services.agent_worker.rules.page_text import page_text
from shared.domain.effect import ToolSpec
from shared.ports.egress import Answer, Egress, EgressFailed, EgressRefused, Question, UnwantedContent

DEFAULT_CHARS = 50_000
MOST_CHARS = 250_000
BYTES_FOR_A_CHAR = 4
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS = frozenset(
    {"application/json", "application/xml", "application/xhtml+xml", "application/javascript", "application/x-ndjson"}
    | {"application/yaml", "application/x-yaml", "application/toml", "application/sql", "application/graphql"}
    | {"application/x-javascript", "application/ecmascript", "application/x-sh", "application/rtf", "message/rfc822"}
)
_LOOKED_AT = 1024

_SPEC = ToolSpec(
    name="web_fetch",
    description=(
        "Read a page of the web (http or https): HTML as text with its links, other text as it is. "
        "Addresses of private networks and of this machine can't be read."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "The address, with http:// or https://."},
            "max_chars": {
                "type": "integer",
                "description": f"The most characters to read, up to {MOST_CHARS}.",
                "default": DEFAULT_CHARS,
            },
        },
        "required": ["url"],
    },
    effect="read",
)


class WebFetchTool:
    """Asks the web for what the model names, through the guarded way out and no other."""

    def __init__(self, egress: Egress, *, timeout: timedelta) -> None:
        self._egress = egress
        self._timeout = timeout

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The text of the page. Raises ``ToolFailed`` where it may not or cannot be read, or is no text."""
        most = max(1, min(int(arguments.get("max_chars", DEFAULT_CHARS)), MOST_CHARS))
        question = Question(
            arguments["url"],
            self._timeout,
            headers={"Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5"},
            most_bytes=most * BYTES_FOR_A_CHAR,
            takes=is_text,
        )
        try:
            answer = await self._egress.ask(question)
        except EgressRefused as refused:
            raise ToolFailed(f"Blocked: {refused}") from refused
        except UnwantedContent as unwanted:
            raise ToolFailed(f"{unwanted}, which is not text; only text can be fetched") from unwanted
        except EgressFailed as failed:
            raise ToolFailed(f"Fetching failed: {failed}") from failed
        if not 200 <= answer.status < 300:
            raise ToolFailed(f"Fetching failed: the server answered with HTTP {answer.status}")
        if not answer.content_type and b"\0" in answer.body[:_LOOKED_AT]:
            raise ToolFailed("the answer is of no told type and looks like no text; only text can be fetched")
        # Beside the event loop: a long page takes a while.
        return await asyncio.to_thread(_told, answer, most)


def is_text(content_type: str) -> bool:
    """Whether a page of that type is read at all."""
    kind = content_type
    return not kind or kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml", "+yaml"))


def _told(answer: Answer, most: int) -> str:
    text = decoded(answer.body, answer.headers.get("content-type", ""))
    if answer.content_type in _HTML or (not answer.content_type and text.lstrip()[:1] == "<"):
        title, text = page_text(text, answer.url)
        text = f"Title: {title}\n\n{text}" if title else text
    if len(text) > most:
        return f"{text[:most]}\n[truncated at {most} chars]"
    if answer.is_cut:
        return f"{text}\n[truncated: the page is longer than {most * BYTES_FOR_A_CHAR} bytes]"
    return text or "(the page has no text)"
