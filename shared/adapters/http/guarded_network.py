"""Where connections to the web begin: the host is looked up once, judged, and the very address is called.

Everything above (HTTP, TLS with the host's own name, redirects) stands on this, so there is no way round it.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from typing import Protocol

import httpcore2

from shared.adapters.models.dial import CONNECT_WITHIN
from shared.domain.addresses import read_ip
from shared.domain.destination import Origin, plain_host, refusal_of, refusal_of_addresses

LOOK_UPS = 16
"""At a time; a look-up that hangs holds a thread of its own and nobody else's."""

MOST_ADDRESSES = 4
"""Of a host, one after the other; so each has its share of the time."""


class AddressRefused(httpcore2.ConnectError):
    """The sentence says why; it names no address."""


class Resolver(Protocol):
    """Looks up hosts."""

    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses of a host, the best first. Raises ``OSError``."""
        ...


class SystemResolver:
    """The machine's own, in threads that nobody waits for when the process ends."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(LOOK_UPS)

    async def addresses(self, host: str) -> Sequence[str]:
        """See ``Resolver``. A look-up whose caller has gone away ends by itself and frees its place then."""
        await self._turn.acquire()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[str]] = loop.create_future()

        def tell(addresses: Sequence[str], fault: OSError | None) -> None:
            self._turn.release()
            if found.done():
                return
            if fault is not None:
                found.set_exception(fault)
            else:
                found.set_result(addresses)

        def look_up() -> None:
            addresses: Sequence[str] = ()
            fault: OSError | None = None
            try:
                infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                addresses = tuple(dict.fromkeys(str(info[4][0]) for info in infos))
            except (OSError, UnicodeError) as error:
                fault = error if isinstance(error, OSError) else OSError("no host has that name")
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, addresses, fault)

        try:
            threading.Thread(target=look_up, name="look up a host", daemon=True).start()
        except RuntimeError as error:
            self._turn.release()
            raise OSError("the machine has no thread to look the host up") from error
        return await found


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """A network backend of httpcore that calls public addresses, and the hosts and ports that are ``allowed``.

    ``network`` does the calling and is only ever given an IP address; ``is_ours`` knows those of this machine.
    """

    def __init__(
        self,
        allowed: Collection[Origin] = (),
        *,
        resolver: Resolver | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
        is_ours: Callable[[str], bool] | None = None,
    ) -> None:
        self._allowed = frozenset(allowed)
        self._resolver = resolver or SystemResolver()
        self._network = network or httpcore2.AnyIOBackend()
        self._is_ours = is_ours or is_own

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Look up, judge, call. Raises ``AddressRefused``, and what httpcore raises."""
        within = CONNECT_WITHIN if timeout is None else min(timeout, CONNECT_WITHIN)
        try:
            async with asyncio.timeout(within):
                addresses = await self._judged(Origin(plain_host(host), port))
                return await self._first_to_answer(addresses, port, within, socket_options)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("the host did not take the connection in time") from error

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """There is none on the web."""
        raise AddressRefused("a socket of this machine is not on the web")

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await asyncio.sleep(seconds)

    async def _judged(self, origin: Origin) -> Sequence[str]:
        is_allowed = origin in self._allowed
        if refusal := refusal_of(origin, is_allowed=is_allowed):
            raise AddressRefused(refusal)
        found = await self._looked_up(origin.host)
        if refusal := refusal_of_addresses(found, is_allowed=is_allowed):
            raise AddressRefused(refusal)
        if not is_allowed and any(self._is_ours(each) for each in found):
            raise AddressRefused("the host is this machine")
        return _families_in_turn(found)[:MOST_ADDRESSES]

    async def _looked_up(self, host: str) -> Sequence[str]:
        if read_ip(host) is not None:
            return (host,)
        try:
            found = await self._resolver.addresses(host)
        except OSError as error:
            raise httpcore2.ConnectError("the host has no address") from error
        if not found:
            raise httpcore2.ConnectError("the host has no address")
        return found

    async def _first_to_answer(
        self,
        addresses: Sequence[str],
        port: int,
        within: float,
        options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> httpcore2.AsyncNetworkStream:
        fault: Exception = httpcore2.ConnectError("the host has no address")
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    address, port, timeout=within / len(addresses), socket_options=options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                fault = error
        raise fault


def is_own(address: str) -> bool:
    """Whether this machine has that address itself: what it keeps from the world may listen there for its own."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asked:
        asked.connect((address, 9))  # of a datagram's socket this sends nothing; the route says who would send
        return bool(asked.getsockname()[0] == address)
    return False


def _families_in_turn(addresses: Sequence[str]) -> list[str]:
    """The resolver's order, but with the two families in turn: a machine without one of them must not wait for it."""
    first = [each for each in addresses if (":" in each) == (":" in addresses[0])]
    others = [each for each in addresses if (":" in each) != (":" in addresses[0])]
    return [each for each in chain.from_iterable(zip_longest(first, others)) if each is not None]


def reason_in(fault: BaseException) -> str | None:
    """The refusal that a fault of the HTTP library was made from, if it was."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return None
