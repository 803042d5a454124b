"""A server that is reached over streamable HTTP, by the SDK's transport over an HTTP client with bounds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from shared.adapters.http.guarded_network import AddressRefused, GuardedNetwork
from shared.adapters.http.guarded_transport import GuardedTransport
from shared.adapters.mcp.journal import Journal
from shared.adapters.mcp.program import LARGEST_MESSAGE
from shared.adapters.proxies import is_address_proxied
from shared.domain.destination import origin_of, refusal_of
from shared.domain.mcp_server import McpServer

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 300.0
_UNPACKED = {"Accept-Encoding": "identity"}


@asynccontextmanager
async def open_address(server: McpServer, journal: Journal) -> AsyncIterator[TransportStreams]:
    """Streams to and from the server; nothing is sent yet. The SDK follows no redirect to another origin.

    The address is its operator's, and so is a proxy that the environment names for it: both are asked as told.
    """
    origin = origin_of(server.url)
    if refusal := refusal_of(origin, is_allowed=True):
        raise AddressRefused(refusal)
    silence = max(_SILENCE_SECONDS, server.call_timeout.total_seconds() * 2)
    async with httpx2.AsyncClient(
        transport=None if is_address_proxied(server.url) else GuardedTransport(GuardedNetwork([origin])),
        headers={**server.headers, **_UNPACKED},
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=silence),
        event_hooks={"response": [_Watch(journal).saw]},
    ) as client:
        opened = streamable_http_client(server.url, http_client=client, max_sse_event_size=LARGEST_MESSAGE)
        async with opened as streams:
            yield streams


class _Watch:
    """Notes what was refused, and bounds what is read at once: the SDK bounds events, and not whole bodies."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def saw(self, response: httpx2.Response) -> None:
        self._journal.status = response.status_code if response.status_code >= 400 else None
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.DecodingError("it is packed, though nobody asked for that", request=response.request)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A body that may not be larger than a message."""

    def __init__(self, body: httpx2.SyncByteStream | httpx2.AsyncByteStream | None) -> None:
        assert isinstance(body, httpx2.AsyncByteStream)  # noqa: S101 - the client is an asynchronous one
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > LARGEST_MESSAGE:
                raise httpx2.StreamError(f"a message of more than {LARGEST_MESSAGE} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
