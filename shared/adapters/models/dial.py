"""Connect to the first address of a host that answers, as RFC 8305 has it: one dead road must not take all the time."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TypeVar

import httpx2

CONNECT_WITHIN = 10.0
"""Seconds for looking up, connecting and the TLS handshake together."""

_HEAD_START = 0.25
"""Seconds before the next address is tried beside the one that does not answer."""

_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}
"""A provider may think for minutes: one that died meanwhile is noticed by the kernel, with what the system offers."""

ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)
AddressInfo = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a provider listens; ``tls`` is ``None`` for plain HTTP, ``server_name`` the name in its certificate."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str | None = None


async def dial(address: Address, protocol: Callable[[], ProtocolT]) -> ProtocolT:
    """A connected protocol. Raises ``httpx2.ConnectError``, and ``ConnectTimeout`` after ``CONNECT_WITHIN``."""
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            return await _connect(address, protocol)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout("the provider did not take the connection in time") from error
    except (OSError, UnicodeError) as error:  # an SSLError is an OSError; a host's name may be none
        raise httpx2.ConnectError("the provider can't be reached") from error


async def _connect(address: Address, protocol: Callable[[], ProtocolT]) -> ProtocolT:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    connected = await _first_to_answer(_in_turn(found))
    try:
        _, made = await loop.create_connection(
            protocol,
            sock=connected,
            ssl=address.tls,
            server_hostname=(address.server_name or address.host) if address.tls else None,
        )
    except BaseException:
        connected.close()
        raise
    return made


def _in_turn(found: Sequence[AddressInfo]) -> list[AddressInfo]:
    """The system's order, but families in turn."""
    first = [info for info in found if info[0] == found[0][0]]
    others = [info for info in found if info[0] != found[0][0]]
    return [info for info in chain.from_iterable(zip_longest(first, others)) if info is not None]


async def _first_to_answer(addresses: list[AddressInfo]) -> socket.socket:
    if len(addresses) == 1:
        return await _try(addresses[0])
    trying: set[asyncio.Task[socket.socket]] = set()
    fault: BaseException = OSError("the host has no address")
    try:
        while addresses or trying:
            if addresses:
                trying.add(asyncio.create_task(_try(addresses.pop(0))))
            patience = _HEAD_START if addresses else None
            done, _ = await asyncio.wait(trying, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                trying.discard(task)
                refused = task.exception()
                if refused is None:
                    # Others that came in at the same moment are closed below.
                    trying |= done - {task}
                    return task.result()
                fault = refused
        raise fault
    finally:
        await _close_all(trying)


async def _close_all(trying: set[asyncio.Task[socket.socket]]) -> None:
    for task in trying:
        task.cancel()
    for outcome in await asyncio.gather(*trying, return_exceptions=True):
        if isinstance(outcome, socket.socket):
            outcome.close()


async def _try(info: AddressInfo) -> socket.socket:
    family, kind, protocol, _, where = info
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(0)
        _set_options(sock)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
