"""How a request gets to its provider: over our own lines, or the library's way where that knows better.

The SDK says what goes out. At opening it is asked for one request that leads nowhere, and the head it wrote
(authentication, address, configured headers) stands before every body from then on: writing it anew for each call
costs more than sending it. The SDK with httpx2 does the whole call where the environment names a proxy, and where a
provider redirects.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

import httpx2

from shared.adapters.models.dial import Address
from shared.adapters.models.line_pool import LinePool, open_lines
from shared.adapters.models.reply import LibraryReply, Reply, unpacked
from shared.adapters.proxies import is_proxied

CALL_ID_HEADER = "X-Lucyd-Call-Id"
"""The provider, or whoever stands before it, can tell by it that two requests are one call."""

TRACEPARENT_HEADER = "traceparent"

Post = Callable[[bytes, Mapping[str, str]], Awaitable[httpx2.Response]]
"""One call by an SDK: the body and the headers that are this call's own."""

OpenSdk = Callable[[httpx2.AsyncClient | None], AbstractAsyncContextManager[Post]]
"""An SDK with this client, or with its own; closes it on leaving."""

_PORTS = {"http": 80, "https": 443}
_OF_EACH_CALL = (CALL_ID_HEADER.lower().encode(), TRACEPARENT_HEADER.encode())
_WRITTEN_HERE = (b"content-length", b"transfer-encoding", *_OF_EACH_CALL)


class Sender(Protocol):
    """Sends one request and never a second one by itself."""

    async def send(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """The answer when its head is there; ``headers`` are this call's own.

        Raises ``httpx2.HTTPError``, and what the SDK raises.
        """
        ...


class LibrarySender:
    """The SDK and httpx2 do it all."""

    def __init__(self, post: Post) -> None:
        self._post = post

    async def send(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """See ``Sender``."""
        return LibraryReply(await self._post(body, headers))


class LineSender:
    """Bodies behind a head that was written once. ``library`` opens the other way, for redirects."""

    def __init__(self, head: bytes, lines: LinePool, library: Callable[[], Awaitable[Sender]]) -> None:
        self._head = head
        self._lines = lines
        self._library = library

    async def send(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """See ``Sender``."""
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        own = f"{told}Content-Length: {len(body)}\r\n\r\n"
        line = await self._lines.ask(b"".join((self._head, own.encode(), body)))
        if 300 <= line.status < 400:
            await line.let_go(finished=False)
            return await (await self._library()).send(body, headers)
        if line.headers.get("content-encoding", "identity") != "identity":
            return unpacked(line)
        return line


@asynccontextmanager
async def open_sender(open_sdk: OpenSdk, *, configured: Collection[str] = ()) -> AsyncIterator[Sender]:
    """The sender for what this SDK would send; ``configured`` are the names of headers that the operator chose."""
    async with AsyncExitStack() as stack:

        async def library() -> Sender:
            return LibrarySender(await stack.enter_async_context(open_sdk(None)))

        request = await _learned(open_sdk)
        if is_proxied(request.url.scheme):
            yield await library()
        else:
            lines = await stack.enter_async_context(open_lines(_address(request)))
            yield LineSender(_head(request, configured), lines, _once(library))


def _once(make: Callable[[], Awaitable[Sender]]) -> Callable[[], Awaitable[Sender]]:
    made: list[Sender] = []

    async def first_or_again() -> Sender:
        if not made:
            made.append(await make())
        return made[0]

    return first_or_again


async def _learned(open_sdk: OpenSdk) -> httpx2.Request:
    nowhere = _Nowhere()
    async with open_sdk(httpx2.AsyncClient(transport=nowhere)) as post:
        await post(b"{}", {})
    return nowhere.noted[0]


class _Nowhere(httpx2.AsyncBaseTransport):
    """Notes what would be sent and answers by itself."""

    def __init__(self) -> None:
        self.noted: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.noted.append(request)
        return httpx2.Response(200, json={})


def _address(request: httpx2.Request) -> Address:
    url = request.url
    host, port = url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
    if url.scheme != "https":
        return Address(host, port)
    tls = httpx2.create_ssl_context()
    tls.set_alpn_protocols(["http/1.1"])
    # The SDKs name another one for hosts with an underscore.
    return Address(host, port, tls, request.extensions.get("sni_hostname"))


def _head(request: httpx2.Request, configured: Collection[str]) -> bytes:
    skipped = set(_WRITTEN_HERE)
    lines = [b"POST %b HTTP/1.1" % request.url.raw_path]
    if "accept-encoding" not in {name.lower() for name in configured}:
        # Unpacking costs more than an answer's few kilobytes, and holds pieces back.
        skipped.add(b"accept-encoding")
        lines.append(b"Accept-Encoding: identity")
    lines += [b"%b: %b" % (name, value) for name, value in request.headers.raw if name.lower() not in skipped]
    return b"\r\n".join((*lines, b""))
