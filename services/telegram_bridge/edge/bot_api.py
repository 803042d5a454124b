"""Telegram's Bot API: the only file that knows its JSON.

The token is a part of every address, so no error of the HTTP client may leave this file: their texts name the address.
That is why errors raised here have no cause.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import orjson

from services.telegram_bridge.ports import Bot, TokenRefused
from shared.errors import TryLater

LARGEST_ANSWER = 1024 * 1024
LONGEST_WAIT = 300.0
"""Seconds; Telegram's own advice beyond that is not followed."""


class _NotReached(Exception):
    """The kind of a fault, without any of its text."""


@contextlib.asynccontextmanager
async def open_bot_api(
    base_url: str, token: str, *, timeout: timedelta, connect_timeout: timedelta
) -> AsyncIterator["BotApi"]:
    """The API of one bot. ``timeout`` bounds a whole call."""
    limits = httpx2.Timeout(timeout.total_seconds(), connect=connect_timeout.total_seconds())
    async with httpx2.AsyncClient(timeout=limits, follow_redirects=False) as client:
        yield BotApi(client, base_url, token, timeout)


class BotApi:
    """``BotAccount`` of the ports."""

    def __init__(self, client: httpx2.AsyncClient, base_url: str, token: str, timeout: timedelta) -> None:
        self._client = client
        self._root = f"{base_url.rstrip('/')}/bot{quote(token, safe=':')}"
        self._timeout = timeout

    async def me(self) -> Bot:
        """See ``BotAccount.me``."""
        match await self._call("getMe"):
            case {"id": int(number), "username": str(username)}:
                return Bot(number, username)
        raise TryLater("Telegram's answer was not understood")

    async def _call(self, method: str) -> Any:
        try:
            answer = await self._answer(method)
        except _NotReached as fault:
            reason = str(fault)
        else:
            return _result(answer)
        raise TryLater(f"Telegram can't be reached ({reason})")

    async def _answer(self, method: str) -> "_Answer":
        reason = ""
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                async with self._client.stream("GET", f"{self._root}/{method}") as response:
                    body = bytearray()
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > LARGEST_ANSWER:
                            break
                    return _Answer(response.status_code, bytes(body))
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, TimeoutError, OSError) as fault:
            reason = type(fault).__name__
        raise _NotReached(reason)  # outside of the handler, where the client's error would be its context


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes

    def document(self) -> Mapping[str, Any]:
        try:
            found = orjson.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _result(answer: _Answer) -> Any:
    document = answer.document()
    if answer.status == 200 and document.get("ok") is True:
        return document.get("result")
    if answer.status in {401, 404} and document.get("ok") is False:
        # 404 is what Telegram says to what does not even look like a token.
        raise TokenRefused("Telegram refuses the token")
    raise TryLater(f"Telegram answered {answer.status}", after=_asked_pause(document))


def _asked_pause(document: Mapping[str, Any]) -> float:
    match document.get("parameters"):
        case {"retry_after": int(seconds)} if seconds > 0:
            return min(float(seconds), LONGEST_WAIT)
    return 0.0
