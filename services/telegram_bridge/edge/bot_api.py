"""Telegram's Bot API: calls, and what their answers mean. With ``update_wire`` the only file that knows its JSON.

The token is a part of every address, so no error of the HTTP client may leave this file: their texts name the address.
That is why errors raised here have no cause.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import orjson

from services.telegram_bridge.edge.update_wire import read_updates
from services.telegram_bridge.ports import Bot, Refused, TokenRefused, Unclear
from services.telegram_bridge.rules.files import FileToSend
from services.telegram_bridge.rules.place import Place
from services.telegram_bridge.rules.updates import Button, Update
from shared.domain.delivery import Reaction
from shared.domain.outgoing_file import ShownAs
from shared.errors import TryLater

LARGEST_ANSWER = 16 * 1024 * 1024
LONGEST_WAIT = 300.0
"""Seconds; Telegram's own advice beyond that is not followed."""

LONGEST_REASON = 200
UPDATES_AT_ONCE = 50
TAKEN = ("message", "callback_query")
BEYOND_THE_POLL = timedelta(seconds=15)
"""How much longer than the poll itself its answer may take."""

NOT_BEGUN = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.InvalidURL)
"""Faults before the first byte of a request left this machine."""


METHODS: Mapping[ShownAs, str] = {
    "photo": "sendPhoto",
    "voice": "sendVoice",
    "audio": "sendAudio",
    "video": "sendVideo",
    "document": "sendDocument",
}
UPLOAD = timedelta(seconds=180)
"""How long a call with a file may take at least: 50 MB over a line of 2.5 Mbit/s."""

Files = Mapping[str, tuple[str, bytes, str]]


class _NotReached(Exception):
    """The kind of a fault, without any of its text."""


class _CutOff(Exception):
    """The same, for a request that may have arrived."""


@contextlib.asynccontextmanager
async def open_bot_api(
    base_url: str, token: str, *, timeout: timedelta, connect_timeout: timedelta
) -> AsyncIterator["BotApi"]:
    """The API of one bot. ``timeout`` bounds a whole call."""
    limits = httpx2.Timeout(None, connect=connect_timeout.total_seconds(), pool=connect_timeout.total_seconds())
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
        match _result(await self._ask("getMe", {}, self._timeout)):
            case {"id": int(number), "username": str(username)}:
                return Bot(number, username)
        raise TryLater("Telegram's answer was not understood")

    async def updates(self, *, offset: int | None, wait: timedelta) -> Sequence[Update]:
        """See ``BotAccount.updates``."""
        question: dict[str, Any] = {
            "timeout": round(wait.total_seconds()),
            "limit": UPDATES_AT_ONCE,
            "allowed_updates": TAKEN,
        }
        if offset is not None:
            question["offset"] = offset
        answer = await self._ask("getUpdates", question, max(self._timeout, wait + BEYOND_THE_POLL))
        return read_updates(_result(answer))

    async def send(self, place: Place, text: str, *, button: Button | None = None) -> str:
        """See ``BotAccount.send``."""
        message: dict[str, Any] = {"chat_id": place.chat, "text": text}
        if place.topic is not None:
            message["message_thread_id"] = place.topic
        if button is not None:
            message["reply_markup"] = {"inline_keyboard": [[{"text": button.label, "callback_data": button.data}]]}
        return _number_of(await self._do("sendMessage", message))

    async def send_file(self, place: Place, file: FileToSend) -> str:
        """See ``BotAccount.send_file``."""
        fields = {"chat_id": str(place.chat)}
        if place.topic is not None:
            fields["message_thread_id"] = str(place.topic)
        if file.caption:
            fields["caption"] = file.caption
        if file.shown_as == "document":
            fields["disable_content_type_detection"] = "true"
        uploaded: Files = {file.shown_as: (file.name, file.data, file.media_type)}
        return _number_of(await self._do(METHODS[file.shown_as], fields, uploaded))

    async def react(self, place: Place, reaction: Reaction) -> None:
        """See ``BotAccount.react``."""
        if not reaction.message.isdecimal():
            raise Refused("a message of Telegram has a number")
        shown = [{"type": "emoji", "emoji": reaction.emoji}]
        order = {"chat_id": place.chat, "message_id": int(reaction.message), "reaction": shown}
        await self._do("setMessageReaction", order)

    async def answer_press(self, press: str, *, text: str) -> None:
        """See ``BotAccount.answer_press``."""
        await self._do("answerCallbackQuery", {"callback_query_id": press, "text": text})

    async def _ask(self, method: str, question: Mapping[str, Any], timeout: timedelta) -> "_Answer":
        """The answer to what may be asked twice."""
        try:
            return await self._answer(method, question, timeout)
        except (_NotReached, _CutOff) as fault:
            reason = str(fault)
        raise TryLater(f"Telegram can't be reached ({reason})")

    async def _do(self, method: str, order: Mapping[str, Any], files: Files | None = None) -> Any:
        """The result of what must not be done twice."""
        timeout = max(self._timeout, UPLOAD) if files else self._timeout
        try:
            return _outcome(await self._answer(method, order, timeout, files))
        except _NotReached as fault:
            reached, reason = False, str(fault)
        except _CutOff as fault:
            reached, reason = True, str(fault)
        if reached:
            raise Unclear(f"no answer ({reason})")
        raise TryLater(f"Telegram can't be reached ({reason})")

    async def _answer(
        self, method: str, document: Mapping[str, Any], timeout: timedelta, files: Files | None = None
    ) -> "_Answer":
        begun, reason = True, ""
        body_of: dict[str, Any] = {"json": document} if files is None else {"data": document, "files": files}
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                async with self._client.stream("POST", f"{self._root}/{method}", **body_of) as response:
                    body = bytearray()
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > LARGEST_ANSWER:
                            break
                    return _Answer(response.status_code, bytes(body))
        except NOT_BEGUN as fault:
            begun, reason = False, type(fault).__name__
        except (httpx2.HTTPError, httpx2.StreamError, TimeoutError, OSError) as fault:
            reason = type(fault).__name__
        # Raised outside of the handlers, where the client's error would be its context.
        raise _CutOff(reason) if begun else _NotReached(reason)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes

    def document(self) -> Mapping[str, Any]:
        try:
            found = orjson.loads(self.body)
        except ValueError:
            found = _leniently(self.body)
        return found if isinstance(found, dict) else {}


def _number_of(result: Any) -> str:
    match result:
        case {"message_id": int(number)}:
            return str(number)
    return ""  # it says that it has it, but not under which number


def _leniently(body: bytes) -> Any:
    """Also halves of characters, which orjson refuses: one odd message must not hold up all that came with it."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return {}


def _result(answer: _Answer) -> Any:
    document = answer.document()
    if answer.status == 200 and document.get("ok") is True:
        return document.get("result")
    _raise_if_token_refused(answer.status, document)
    raise TryLater(f"Telegram answered {answer.status}", after=_asked_pause(document))


def _outcome(answer: _Answer) -> Any:
    """The result of an order, or whether it certainly was not carried out: only a clear no of Telegram says so."""
    document = answer.document()
    status = answer.status
    if status == 200 and document.get("ok") is True:
        return document.get("result")
    says_no = document.get("ok") is False
    if says_no:
        _raise_if_token_refused(status, document)
    if status == 429 or (says_no and status >= 500) or (not says_no and 300 <= status < 500):
        # The last: something between us and Telegram has turned the request away.
        raise TryLater(f"Telegram answered {status}", after=_asked_pause(document))
    if says_no and 400 <= status < 500:
        raise Refused(f"{status} {document.get('description', '')}"[:LONGEST_REASON].strip())
    raise Unclear(f"an answer that was not understood ({status})")


def _raise_if_token_refused(status: int, document: Mapping[str, Any]) -> None:
    if status in {401, 404} and document.get("ok") is False:
        # 404 is what Telegram says to what does not even look like a token.
        raise TokenRefused("Telegram refuses the token")


def _asked_pause(document: Mapping[str, Any]) -> float:
    match document.get("parameters"):
        case {"retry_after": int(seconds)} if seconds > 0:
            return min(float(seconds), LONGEST_WAIT)
    return 0.0
