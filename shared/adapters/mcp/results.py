"""What a tool answered, in words, and the images that a model may be shown beside them."""

import base64
import binascii
import json
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from shared.domain.attachment import Attachment, image_type
from shared.domain.mcp_server import McpServer
from shared.domain.mcp_tool import plain
from shared.domain.mcp_words import told
from shared.ports.mcp_servers import Answered

_LONGEST_WORD = 200
LONGEST_TEXT = 1_000_000
"""Characters that are looked through: more than any model takes in, and nobody else waits for long meanwhile."""


def answered(result: CallToolResult, server: McpServer) -> Answered:
    """Texts as they are; of everything else a line that says what came, and the images."""
    telling = _Telling(server, shows=not result.is_error)  # an error has none: see ToolResult
    parts = [telling.said(block) for block in result.content]
    if result.structured_content is not None and not any(isinstance(each, TextContent) for each in result.content):
        # A secret is known also as JSON has it written.
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, default=str))
    text = _bounded("\n".join(part for part in parts if part), server)
    return Answered(text or "(no output)", result.is_error, telling.images)


def _bounded(text: str, server: McpServer) -> str:
    cut = len(text) - LONGEST_TEXT
    if cut <= 0:
        return told(text, server)
    return told(text[:LONGEST_TEXT], server, is_cut=True) + f"\n... [{cut} characters cut] ..."


class _Telling:
    """Tells of one block after the other, and gathers the images on its way."""

    def __init__(self, server: McpServer, *, shows: bool) -> None:
        self._server = server
        self._shows = shows
        self.images: list[Attachment] = []

    def said(self, block: Any) -> str:
        match block:
            case TextContent():
                return block.text
            case ImageContent():
                return self._of(f"image of type {self._word(block.mime_type)}", block.data)
            case AudioContent():
                return self._of(f"audio of type {self._word(block.mime_type)}", block.data)
            case EmbeddedResource():
                where = self._word(block.resource.uri)
                if isinstance(block.resource, BlobResourceContents):
                    kind = self._word(block.resource.mime_type or "unknown")
                    return self._of(f"resource {where} of type {kind}", block.resource.blob)
                return f"[resource {where}]\n{block.resource.text}"
            case ResourceLink():
                return f"[link to the resource {self._word(block.uri)}: {self._word(block.name)}]"
            case _:
                return "[something of a kind that is not known here]"

    def _of(self, what: str, encoded: str) -> str:
        """A line about bytes. What is an image is told by its first bytes, and not by what the server calls it."""
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return f"[{what}, of no size that can be told: it can't be shown here]"
        seen = image_type(data) if self._shows else None
        if seen is None:
            return f"[{what}, {len(data)} bytes: it can't be shown here]"
        self.images.append(Attachment(seen, data))
        return f"[{what}, {len(data)} bytes]"

    def _word(self, text: object) -> str:
        return plain(" ".join(told(str(text), self._server).split()), _LONGEST_WORD)
