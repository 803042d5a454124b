"""What a client may ask for, checked before anything is stored."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from shared.domain.run import Address, Source, WhenBusy
from shared.errors import BadInput

LONGEST_NAME = 200
LONGEST_KEY = 255
UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")
"""What no name has: control characters, and characters that were broken on their way."""

UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
WHEN_BUSY = frozenset({"queue", "steer", "interrupt", "reject"})
TIER = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A message for the agent. ``text`` has the context in front of it, if one was given; what neither Postgres nor
    UTF-8 can hold (NUL, halves of characters) is replaced in it."""

    text: str
    sender: str
    source: Source
    tier: str
    when_busy: WhenBusy = "queue"


def read_chat_request(body: object) -> ChatRequest:
    """The request out of a JSON body. Raises ``BadInput`` with the sentence for the caller."""
    if not isinstance(body, dict):
        raise BadInput("the body must be a JSON object")
    message = body.get("message")
    if not isinstance(message, str) or not message.strip():
        raise BadInput('"message" field is required')
    context = _text(body, "context", default="")
    source = body.get("source", "http")
    if source not in {"http", "cli"}:
        raise BadInput('"source" must be "http" or "cli"')
    tier = _text(body, "tier", default="full")
    if not TIER.fullmatch(tier):
        raise BadInput('"tier" must be the name of a context tier')
    if body.get("attachments"):
        raise BadInput('"attachments" are not taken by this version')
    when_busy = body.get("when_busy", "queue")
    if when_busy not in WHEN_BUSY:
        raise BadInput('"when_busy" must be "queue", "steer", "interrupt" or "reject"')
    text = f"[context] {context}\n{message}" if context else message
    sender = _name(body, "sender", default="cli" if source == "cli" else "default")
    return ChatRequest(_storable(text), sender, cast("Source", source), tier, cast("WhenBusy", when_busy))


def read_decision(body: object) -> tuple[bool, str]:
    """What a person decides, and their words. Raises ``BadInput``."""
    decision = body.get("decision") if isinstance(body, dict) else None
    if not isinstance(body, dict) or decision not in {"allow", "deny"}:
        raise BadInput('"decision" must be "allow" or "deny"')
    return decision == "allow", _storable(_text(body, "answer", default=""))


def read_reset_target(body: object) -> str:
    """The target of a reset. Raises ``BadInput``."""
    target = body.get("target") if isinstance(body, dict) else None
    if not isinstance(target, str) or not target.strip():
        raise BadInput('"target" must be a non-empty string')
    if UNFIT.search(target.strip()):
        raise BadInput('"target" must be a name without control characters')
    return target.strip()


def read_idempotency_key(value: str | None) -> str | None:
    """The header of that name. Raises ``BadInput`` when it is empty, too long or not plain text."""
    if value is None:
        return None
    if not 1 <= len(value) <= LONGEST_KEY or not value.isascii() or not value.isprintable():
        raise BadInput(f"Idempotency-Key must be 1 to {LONGEST_KEY} printable ASCII characters")
    return value


def address_of(request: ChatRequest, *, key_name: str) -> Address:
    """Where the message belongs: the terminal has one conversation, API callers one for each sender of their key."""
    if request.source == "cli":
        return Address(
            "cli" if request.sender == "cli" else f"cli:{request.sender}", "cli", f"key:{key_name}", request.sender
        )
    return Address(f"http:{key_name}:{request.sender}", "http", f"key:{key_name}", f"http-{request.sender}")


def read_period(value: str | None) -> Literal["today", "week", "all"]:
    """The period of a cost report. Raises ``BadInput``."""
    period = value or "today"
    if period not in {"today", "week", "all"}:
        raise BadInput('"period" must be today, week or all')
    return cast("Literal['today', 'week', 'all']", period)


def _storable(text: str) -> str:
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _text(body: Mapping[str, Any], name: str, *, default: str) -> str:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise BadInput(f'"{name}" must be a string')
    return value


def _name(body: Mapping[str, Any], name: str, *, default: str) -> str:
    value = _text(body, name, default=default).strip() or default
    if len(value) > LONGEST_NAME or UNFIT.search(value):
        raise BadInput(f'"{name}" must be at most {LONGEST_NAME} characters, without control characters')
    return value


def read_traceparent(value: str | None) -> str | None:
    """The W3C trace context, level 1; one of another form is left out, as the standard asks."""
    return value if value is not None and TRACEPARENT.fullmatch(value) else None
