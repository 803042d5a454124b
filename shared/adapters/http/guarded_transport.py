"""A transport of httpx2 whose every connection is made by the guarded network."""

import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import cast

import httpcore2
import httpx2

AT_ONCE = 64
KEPT_FOR = 5.0
"""Seconds that a connection is kept for the next request to the same origin."""

_FAULTS: dict[type[Exception], type[httpx2.TransportError]] = {
    httpcore2.ConnectTimeout: httpx2.ConnectTimeout,
    httpcore2.ReadTimeout: httpx2.ReadTimeout,
    httpcore2.WriteTimeout: httpx2.WriteTimeout,
    httpcore2.PoolTimeout: httpx2.PoolTimeout,
    httpcore2.ConnectError: httpx2.ConnectError,
    httpcore2.ReadError: httpx2.ReadError,
    httpcore2.WriteError: httpx2.WriteError,
    httpcore2.LocalProtocolError: httpx2.LocalProtocolError,
    httpcore2.RemoteProtocolError: httpx2.RemoteProtocolError,
    httpcore2.UnsupportedProtocol: httpx2.UnsupportedProtocol,
}


class GuardedTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1 without any proxy: one would look hosts up by itself, and call what the guard has not judged.

    Its owner closes it. ``tls`` checks certificates against the name in the URL, not against the address called.
    """

    def __init__(
        self,
        network: httpcore2.AsyncNetworkBackend,
        *,
        tls: ssl.SSLContext | None = None,
        at_once: int = AT_ONCE,
        kept_for: float = KEPT_FOR,
    ) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or _usual_tls(),
            max_connections=at_once,
            keepalive_expiry=kept_for,
            network_backend=network,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx2. Raises ``httpx2.TransportError``; a refused address is a ``ConnectError``."""
        asked = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=cast("httpx2.AsyncByteStream", request.stream),
            extensions=request.extensions,
        )
        with _faults_of_httpx2():
            got = await self._pool.handle_async_request(asked)
        stream = _Stream(cast("httpx2.AsyncByteStream", got.stream))
        return httpx2.Response(got.status, headers=got.headers, stream=stream, extensions=got.extensions)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, pieces: httpx2.AsyncByteStream) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _faults_of_httpx2():
            async for piece in self._pieces:
                yield piece

    async def aclose(self) -> None:
        with _faults_of_httpx2():
            await self._pieces.aclose()


@functools.cache
def _usual_tls() -> ssl.SSLContext:
    """One for all clients of the process: to read the authorities takes longer than to open everything else."""
    return httpx2.create_ssl_context()


@contextlib.contextmanager
def _faults_of_httpx2() -> Iterator[None]:
    try:
        yield
    except tuple(_FAULTS) as fault:
        kind = next(theirs for ours, theirs in _FAULTS.items() if isinstance(fault, ours))
        raise kind(str(fault)) from fault
