"""What a server of the Model Context Protocol says, as it may be told on: without the secrets that it was given."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from shared.domain.mcp_server import McpServer
from shared.domain.plain_text import visible

SECRET = "[secret]"  # noqa: S105 - what stands in place of one
_SHORTEST_LINE = 6


def told(text: str, server: McpServer, *, is_cut: bool = False) -> str:
    """``text`` without secrets, and without what nobody sees: taking that out may put together what it parted.

    ``is_cut``: there was more of it, so that it may end with a part of a secret, which goes as well.
    """
    text = redacted(visible(redacted(text, server)), server)
    return _without_a_beginning(text, server) if is_cut else text


def told_in(value: Any, server: McpServer) -> Any:
    """The same of each text in a JSON value, names of fields among them."""
    if isinstance(value, str):
        return told(value, server)
    if isinstance(value, Mapping):
        return {told(str(key), server): told_in(each, server) for key, each in value.items()}
    return [told_in(each, server) for each in value] if isinstance(value, list) else value


def redacted(text: str, server: McpServer) -> str:
    """The text without the secrets that the server was given: it may quote them."""
    for form in _forms(server.secrets):
        text = text.replace(form, SECRET)
    return text


def _without_a_beginning(text: str, server: McpServer) -> str:
    text = text.rstrip("\N{REPLACEMENT CHARACTER}")  # of a character that was cut
    for form in _forms(server.secrets):
        for length in range(min(len(form) - 1, len(text)), 0, -1):
            if text.endswith(form[:length]):
                return text[:-length] + SECRET
    return text


@lru_cache(maxsize=64)
def _forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """How they may be written, the longest first: as they are, as JSON has them, and line by line."""
    plain = {*secrets, *(line.strip() for secret in secrets for line in secret.splitlines())}
    plain |= {visible(each) for each in plain}
    written = {json.dumps(each, ensure_ascii=ascii)[1:-1] for each in plain for ascii in (True, False)}
    forms = {each for each in plain | written if len(each) >= _SHORTEST_LINE}
    return tuple(sorted(forms, key=lambda each: (-len(each), each)))
