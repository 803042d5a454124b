"""The answer to one request while it comes in: by our own line (``HttpLine``), or by the library, or unpacked by it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Protocol

import httpx2

_LEFTOVERS = 0.1
"""Seconds spent on reading what follows an end marker, so that the connection can be used again."""


class Reply(Protocol):
    """Status and headers are there, the body is read piece by piece."""

    @property
    def status(self) -> int:
        """The status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Found by names in lower case."""
        ...

    async def read(self) -> bytes:
        """The next bytes of the body, nothing at its end. Raises ``httpx2.HTTPError``."""
        ...

    async def let_go(self, *, finished: bool) -> None:
        """The caller is done; ``finished`` says that nothing that may follow matters. Never raises."""
        ...


class LibraryReply:
    """A response of httpx2."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._pieces = response.aiter_bytes()
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """See ``Reply``."""
        async for piece in self._pieces:
            if piece:
                return piece
        return b""

    async def let_go(self, *, finished: bool) -> None:
        """See ``Reply``."""
        # An answer in hand must not be lost to what happens on the wire after its end.
        with suppress(TimeoutError, httpx2.HTTPError):
            if finished:
                async with asyncio.timeout(_LEFTOVERS):
                    while await self.read():
                        pass
            await self._response.aclose()


def unpacked(reply: Reply) -> LibraryReply:
    """The same answer without its ``Content-Encoding``, for servers that pack although nobody asked them to."""
    return LibraryReply(httpx2.Response(reply.status, headers=dict(reply.headers), stream=_Packed(reply)))


class _Packed(httpx2.AsyncByteStream):
    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self._reply.read():
            yield piece

    async def aclose(self) -> None:
        await self._reply.let_go(finished=False)
