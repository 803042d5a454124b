"""A Bot API of our own on 127.0.0.1: real HTTP, real offset semantics, and faults as they are asked for."""

import asyncio
import contextlib
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

TOKEN = "123456789:CANARY-tellNobodyThisToken_aaaaaaaa"
BOT = 123456789
ANNA = 7
LONGEST_POLL = 30.0

Document = Mapping[str, Any]

UPLOADS = {
    "sendPhoto": "photo", "sendVoice": "voice", "sendAudio": "audio", "sendVideo": "video", "sendDocument": "document",
}  # fmt: skip
"""The methods that bring a file, and the field in which it comes."""

REACTIONS = frozenset({"\N{THUMBS UP SIGN}", "\N{FIRE}", "\N{PARTY POPPER}", "\N{HEAVY BLACK HEART}"})
"""Some of those that Telegram knows."""

LARGEST_PHOTO = 10 * 1024 * 1024
LARGEST_UPLOAD = 50 * 1024 * 1024
IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF", b"GIF8")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file as it came in a form."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a call instead of a good answer; ``done`` says whether it takes effect all the same."""

    kind: Literal["answer", "cut", "hang"]
    done: bool = False
    status: int = 500
    document: Document | None = None
    seconds: float = 0.0
    chat: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that Telegram has shown to somebody."""

    id: int
    chat: int
    text: str
    topic: int | None = None
    button: str | None = None
    shown_as: str | None = None
    file: Uploaded | None = None


@dataclass(slots=True)
class FakeBotApi:
    """The server. ``sent`` is what people see, ``calls`` every call that arrived, by its method; ``reactions`` are what
    stands below people's messages, by chat and number.

    ``slowness`` is how many seconds a sending takes, half of them before the message is shown.
    """

    url: str = ""
    sent: list[Sent] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    pressed: dict[str, str] = field(default_factory=dict)
    reactions: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    refuses_token: bool = False
    slowness: float = 0.0
    _updates: list[dict[str, Any]] = field(default_factory=list)
    _written: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    _next_update: int = 1000
    _faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _polls: int = 0
    _held: dict[str, asyncio.Event] = field(default_factory=dict)

    @property
    def waiting(self) -> list[int]:
        """Updates that the bot has not confirmed."""
        return [update["update_id"] for update in self._updates]

    def files_of(self, chat: int) -> list[tuple[str | None, str, bytes]]:
        """What files a chat has seen, in their order: how they are shown, their names and their bytes."""
        seen = [(message.shown_as, message.file) for message in self.sent if message.chat == chat]
        return [(shown_as, file.name, file.data) for shown_as, file in seen if file is not None]

    def said_to(self, chat: int) -> list[str]:
        """Texts that a chat has seen, in their order."""
        return [message.text for message in self.sent if message.chat == chat]

    async def writes(self, text: str | None, *, sender: int = ANNA, **fields: Any) -> int:
        """A person writes to the bot in private; ``fields`` are added to the message. The number of the update."""
        message = {
            "message_id": self._next_update,
            "from": {"id": sender, "is_bot": False, "first_name": "Anna", "username": f"person_{sender}"},
            "chat": {"id": sender, "type": "private"},
            "date": 1_800_000_000,
            **({"text": text} if text is not None else {}),
            **fields,
        }
        return await self.tells({"message": message})

    async def presses(self, button: str, *, sender: int = ANNA, chat: int | None = None) -> int:
        """A person presses a button below one of the bot's messages."""
        message = {"message_id": 1, "chat": {"id": chat or sender, "type": "private"}, "date": 1_800_000_000}
        person = {"id": sender, "is_bot": False, "first_name": "Anna"}
        press = {"id": f"press-{self._next_update}", "from": person, "message": message, "data": button}
        return await self.tells({"callback_query": press})

    async def tells(self, update: Document, *, number: int | None = None) -> int:
        """Any update."""
        number = self._next_update if number is None else number
        self._next_update = number + 1
        self._updates.append({"update_id": number, **update})
        if "message" in update and "message_id" in update["message"]:
            self._written[update["message"]["chat"]["id"]].add(update["message"]["message_id"])
        async with self._changed:
            self._changed.notify_all()
        return number

    def fail(self, method: str, *faults: Fault) -> None:
        """The next calls of this method meet these faults, one each."""
        self._faults[method].extend(faults)

    def hold(self, method: str) -> Callable[[], None]:
        """Calls of this method take effect and are not answered until the function returned is called."""
        event = self._held.setdefault(method, asyncio.Event())

        def let_go() -> None:
            self._held.pop(method, None)
            event.set()

        return let_go

    async def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait for something to be seen here."""
        async with asyncio.timeout(seconds):
            async with self._changed:
                await self._changed.wait_for(condition)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, length, content_type = _head(head)
                body = await reader.readexactly(length)
                self.paths.add(path)
                answer = await self._answer(method, _order(content_type, body))
                if answer is None:
                    writer.transport.abort()
                    return
                status, document = answer
                payload = document if isinstance(document, bytes) else json.dumps(document).encode()
                writer.write(b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (status, len(payload)) + payload)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            writer.close()

    async def _answer(self, method: str, order: Document) -> tuple[int, Any] | None:
        self.calls.append(method)
        async with self._changed:
            self._changed.notify_all()
        if self.refuses_token:
            return 401, {"ok": False, "error_code": 401, "description": "Unauthorized"}
        fault = self._fault(method, order)
        if fault is not None and fault.kind == "hang":
            await self._do(method, order) if fault.done else None
            await asyncio.sleep(fault.seconds)
            return None
        if fault is not None and fault.kind == "answer":
            await self._do(method, order) if fault.done else None
            return fault.status, _refusal(fault)
        if fault is not None and not fault.done:
            return None
        answer = await self._do(method, order)
        if (held := self._held.get(method)) is not None:
            await held.wait()
        return None if fault is not None else answer

    def _fault(self, method: str, order: Document) -> Fault | None:
        for fault in self._faults[method]:
            if fault.chat is None or fault.chat == order.get("chat_id"):
                self._faults[method].remove(fault)
                return fault
        return None

    async def _do(self, method: str, order: Document) -> tuple[int, Any]:
        match method:
            case "getMe":
                return _good({"id": BOT, "is_bot": True, "first_name": "Lucyd", "username": "lucyd_bot"})
            case "getUpdates":
                return await self._get_updates(order)
            case "sendMessage":
                return await self._send_message(order)
            case "sendPhoto" | "sendVoice" | "sendAudio" | "sendVideo" | "sendDocument":
                return await self._send_file(UPLOADS[method], order)
            case "setMessageReaction":
                return await self._set_reaction(order)
            case "answerCallbackQuery":
                self.pressed[order["callback_query_id"]] = order.get("text", "")
                return _good(True)
        return 404, {"ok": False, "error_code": 404, "description": "Not Found"}

    async def _get_updates(self, order: Document) -> tuple[int, Any]:
        """Confirms what is before the offset, and waits for something; the newest of several polls wins."""
        self._polls += 1
        mine = self._polls
        if (offset := order.get("offset")) is not None:
            self._updates = [update for update in self._updates if update["update_id"] >= offset]
        async with self._changed:
            self._changed.notify_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(order.get("timeout", 0), LONGEST_POLL)):
                    await self._changed.wait_for(lambda: self._updates or self._polls != mine)
        if self._polls != mine:
            return 409, {"ok": False, "error_code": 409, "description": "Conflict: terminated by other getUpdates"}
        return _good(self._updates[: order.get("limit", 100)])

    async def _send_message(self, order: Document) -> tuple[int, Any]:
        text = order["text"]
        if not text.strip() or len(text.encode("utf-16-le")) // 2 > 4096:
            return 400, {"ok": False, "error_code": 400, "description": "Bad Request: message is empty or too long"}
        rows = order.get("reply_markup", {}).get("inline_keyboard", [])
        button = rows[0][0]["callback_data"] if rows else None
        message = Sent(len(self.sent) + 1, order["chat_id"], text, order.get("message_thread_id"), button)
        return await self._show(message, {"text": text})

    async def _send_file(self, shown_as: str, order: Document) -> tuple[int, Any]:
        """Refuses what Telegram refuses: an upload beyond its size, what is no picture, a caption that is too long."""
        file, caption = order.get(shown_as), order.get("caption", "")
        if not isinstance(file, Uploaded):
            return _no(400, f"Bad Request: there is no {shown_as} in the request")
        if len(file.data) > LARGEST_UPLOAD:
            return _no(413, "Request Entity Too Large")
        if not file.data:
            return _no(400, "Bad Request: file must be non-empty")
        if len(caption.encode("utf-16-le")) // 2 > 1024:
            return _no(400, "Bad Request: message caption is too long")
        if shown_as == "photo" and len(file.data) > LARGEST_PHOTO:
            return _no(400, "Bad Request: file is too big for a photo")
        if shown_as == "photo" and not file.data.startswith(IMAGES):
            return _no(400, "Bad Request: IMAGE_PROCESS_FAILED")
        topic = order.get("message_thread_id")
        message = Sent(len(self.sent) + 1, order["chat_id"], caption, topic, None, shown_as, file)
        return await self._show(message, {"caption": caption, shown_as: {"file_id": f"file-{message.id}"}})

    async def _set_reaction(self, order: Document) -> tuple[int, Any]:
        """What is set takes the place of what was there. Refuses what is no reaction, and what nobody wrote."""
        emoji = [each["emoji"] for each in order["reaction"] if each["type"] == "emoji"]
        if len(emoji) != 1 or emoji[0] not in REACTIONS:
            return _no(400, "Bad Request: REACTION_INVALID")
        if order["message_id"] not in self._written.get(order["chat_id"], ()):
            return _no(400, "Bad Request: message to react not found")
        self.reactions[order["chat_id"], order["message_id"]] = emoji
        async with self._changed:
            self._changed.notify_all()
        return _good(True)

    async def _show(self, message: Sent, content: Document) -> tuple[int, Any]:
        await asyncio.sleep(self.slowness / 2)
        message = replace(message, id=len(self.sent) + 1)
        self.sent.append(message)
        async with self._changed:
            self._changed.notify_all()
        await asyncio.sleep(self.slowness / 2)
        return _good({"message_id": message.id, "chat": {"id": message.chat}, **content})


@contextlib.asynccontextmanager
async def fake_bot_api(port: int = 0) -> AsyncIterator[FakeBotApi]:
    """Serve until the block ends."""
    telegram = FakeBotApi()
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await telegram._serve(reader, writer)
        finally:
            connections.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=2**22)
    telegram.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield telegram
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def _head(head: bytes) -> tuple[str, str, int, str]:
    line, *headers = head.decode("latin-1").split("\r\n")
    path = line.split(" ")[1]
    named = {name.lower(): value for name, colon, value in (header.partition(": ") for header in headers) if colon}
    length = int(named.get("content-length", "0"))
    return path.rpartition("/")[2], path, length, named.get("content-type", "")


def _order(content_type: str, body: bytes) -> Document:
    """What is asked, as JSON or as a form; in a form all but files is text, and numbers are written out."""
    if not content_type.startswith("multipart/form-data; boundary="):
        order: Document = json.loads(body or b"{}")
        return order
    boundary = b"--" + content_type.partition("boundary=")[2].encode()
    form: dict[str, Any] = {}
    for part in body.split(boundary)[1:-1]:
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        data = data.removesuffix(b"\r\n")
        lines = head.decode().split("\r\n")
        named = dict(re.findall(r'(\w+)="([^"]*)"', lines[0]))
        if "filename" in named:
            media_type = lines[1].partition(": ")[2] if len(lines) > 1 else ""
            form[named["name"]] = Uploaded(named["filename"], media_type, data)
        else:
            form[named["name"]] = data.decode()
    for name in ("chat_id", "message_thread_id"):
        if name in form:
            form[name] = int(form[name])
    return form


def _no(status: int, why: str) -> tuple[int, Any]:
    return status, {"ok": False, "error_code": status, "description": why}


def _good(result: Any) -> tuple[int, Any]:
    return 200, {"ok": True, "result": result}


def _refusal(fault: Fault) -> Any:
    if fault.document is not None:
        return fault.document
    document: dict[str, Any] = {"ok": False, "error_code": fault.status, "description": f"fault {fault.status}"}
    if fault.status == 429:
        document["parameters"] = {"retry_after": max(1, round(fault.seconds))}
    return document
