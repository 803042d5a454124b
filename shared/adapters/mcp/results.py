"""What a tool answered, in words: a model reads the results of tools as text (docs/adr/0005)."""

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

from shared.domain.mcp_server import McpServer
from shared.domain.mcp_tool import plain
from shared.domain.mcp_words import told
from shared.ports.mcp_servers import Answered

_LONGEST_WORD = 200
LONGEST_TEXT = 1_000_000
"""Characters that are looked through: more than any model takes in, and nobody else waits for long meanwhile."""


def answered(result: CallToolResult, server: McpServer) -> Answered:
    """Texts as they are; of everything else a line that says what came."""
    parts = [_said(block, server) for block in result.content]
    if result.structured_content is not None and not any(isinstance(each, TextContent) for each in result.content):
        # A secret is known also as JSON has it written.
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, default=str))
    text = _bounded("\n".join(part for part in parts if part), server)
    return Answered(text or "(no output)", result.is_error)


def _bounded(text: str, server: McpServer) -> str:
    cut = len(text) - LONGEST_TEXT
    if cut <= 0:
        return told(text, server)
    return told(text[:LONGEST_TEXT], server, is_cut=True) + f"\n... [{cut} characters cut] ..."


def _said(block: Any, server: McpServer) -> str:
    def _word(text: object) -> str:
        return plain(" ".join(told(str(text), server).split()), _LONGEST_WORD)

    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "audio"
            return f"[{kind} of type {_word(block.mime_type)}, {_size(block.data)}: it can't be shown here]"
        case EmbeddedResource():
            where = _word(block.resource.uri)
            if isinstance(block.resource, BlobResourceContents):
                kind = _word(block.resource.mime_type or "unknown")
                return f"[resource {where} of type {kind}, {_size(block.resource.blob)}: it can't be shown here]"
            return f"[resource {where}]\n{block.resource.text}"
        case ResourceLink():
            return f"[link to the resource {_word(block.uri)}: {_word(block.name)}]"
        case _:
            return "[something of a kind that is not known here]"


def _size(data: str) -> str:
    try:
        return f"{len(base64.b64decode(data, validate=True))} bytes"
    except (binascii.Error, ValueError):
        return "of no size that can be told"
