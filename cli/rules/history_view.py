"""What was said in a session, as lines."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cli.rules.clean_text import clean, one_line
from cli.rules.moments import local_time
from cli.rules.pieces import Kind, Piece

_LINE = 200


def history_pieces(
    events: Sequence[Mapping[str, Any]], *, contact: str, session_id: str, agent: str, full: bool
) -> list[Piece]:
    """A head, then each message; ``full`` adds thoughts, tools and whatever else was noted."""
    head = f"Session History: {one_line(contact)}\nID: {session_id}\nEvents: {len(events)}\n{'─' * 60}\n"
    pieces = [Piece(head, "strong")]
    for event in events:
        pieces += _told(event, agent=agent, full=full)
    return pieces


def _told(event: Mapping[str, Any], *, agent: str, full: bool) -> list[Piece]:
    at = local_time(event.get("timestamp"))
    kind, role = event.get("type"), event.get("role")
    if kind == "message" and role == "user":
        sender = one_line(event.get("from") or event.get("sender") or "user")
        return _message(at, sender, _text(event.get("content")), "reply")
    if kind == "message" and role == "assistant":
        return _answer(event, at, agent, full=full)
    if not full:
        return []
    if kind == "tool_result":
        return [Piece(f"\n[{at}] ⚙ result: {one_line(_text(event.get('content')), _LINE)}\n")]
    return [Piece(f"\n[{at}] [{one_line(kind)}] {one_line(json.dumps(event, default=str), _LINE)}\n")]


def _answer(event: Mapping[str, Any], at: str, agent: str, *, full: bool) -> list[Piece]:
    pieces: list[Piece] = []
    thinking = _text(event.get("thinking"))
    if full and thinking:
        pieces += _message(at, f"{agent} thinks", thinking, "thinking")
    text = _text(event.get("text")) or _text(event.get("content"))
    if text:
        pieces += _message(at, agent, text, "reply")
    if full:
        for call in event.get("tool_calls") or ():
            arguments = one_line(json.dumps(call.get("arguments"), default=str, ensure_ascii=False), _LINE)
            pieces.append(Piece(f"\n[{at}] ⚙ {one_line(call.get('name'))} {arguments}\n"))
    return pieces


def _message(at: str, who: str, text: str, kind: Kind) -> list[Piece]:
    indented = "".join(f"  {line}\n" for line in clean(text).splitlines())
    return [Piece(f"\n[{at}] {who}:\n", "strong"), Piece(indented, kind)]


def _text(content: object) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and part.get("text"))
    return ""
