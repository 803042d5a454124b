"""Where a URL leads: read once, strictly, and written anew from what was understood.

Two readers of one URL that differ in a letter are how guards are passed by. So there is one reader here, it refuses
what others read differently, and what is sent is written from its result alone.
"""

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import idna

from shared.domain.addresses import is_metadata, is_metadata_name, is_public, read_ip
from shared.errors import BadInput

LONGEST_URL = 8_192
METADATA = "that address belongs to the cloud around this machine and is never asked"
NOT_PUBLIC = "the host is not on the public internet"

_LONGEST_HOST = 253
_LONGEST_LABEL = 63
_PORTS = {"http": 80, "https": 443}

_UNREADABLE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ufeff]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_AS_IT_IS = "/?:@!$&'()*+,;=-._~%[]"

_LINE_SERVICES = frozenset(
    {1719, 1720, 1723, 2049, 2375, 2376, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5900, 6000, 6379, 6566}
    | {*range(6665, 6670), 6679, 6697, 9100, 10080, 11211, 27017}
)
"""Above 1023: services that are no web servers and take commands from whatever bytes come; browsers refuse most."""


class Origin(NamedTuple):
    """A host and a port, as exactly as an operator allows them."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL that was understood. ``host`` is ASCII in lower case, or an IP address without brackets."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> Origin:
        """Who is asked."""
        return Origin(self.host, self.port)

    @property
    def url(self) -> str:
        """The URL, written anew; the fragment and a usual port are left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def read_destination(url: str) -> Destination:
    """Take a URL apart. Raises ``BadInput`` with the reason, which does not repeat the URL."""
    url = url.strip(" ")
    if len(url) > LONGEST_URL:
        raise BadInput(f"the address is longer than {LONGEST_URL} characters")
    if _UNREADABLE.search(url):
        raise BadInput("the address holds spaces, line breaks, control characters or backslashes")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadInput("the address is not a URL") from error
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise BadInput("only http and https addresses can be fetched")
    if "@" in parts.netloc:
        raise BadInput("an address with a user name or password is not taken")
    host, port = _host_and_port(parts.netloc)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        written = quote(target if target.startswith("/") else f"/{target}", safe=_AS_IT_IS)
    except UnicodeEncodeError as error:
        raise BadInput("the address holds characters that are not valid Unicode") from error
    return Destination(scheme, host, _PORTS[scheme] if port is None else port, written)


def redirected(came_from: Destination, location: str) -> Destination:
    """Where a redirect leads, also one that is written relative. Raises ``BadInput``, also for https to http."""
    location = location.strip(" ")
    if len(location) > LONGEST_URL or _UNREADABLE.search(location):
        raise BadInput("it redirects to an address that can't be read")
    try:
        # Told with its scheme it is absolute; the standard's old form ("http:path") is nobody's any more.
        joined = location if _SCHEME.match(location) else urljoin(came_from.url, location)
    except ValueError as error:
        raise BadInput("it redirects to an address that is not a URL") from error
    found = read_destination(joined)
    if came_from.scheme == "https" and found.scheme == "http":
        raise BadInput("it redirects from https to http")
    return found


def origin_of(text: str) -> Origin:
    """Who an operator means by a URL or by ``host:port`` (443 where none is told). Raises ``BadInput``.

    Read as leniently as whoever calls the address reads it: this only says what is allowed.
    """
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadInput("that is neither a URL nor a host with a port") from error
    if not host or parts.scheme not in _PORTS:
        raise BadInput("that is neither a URL nor a host with a port")
    return Origin(plain_host(host), port or _PORTS[parts.scheme])


def plain_host(host: str) -> str:
    """A host as it is compared: ASCII, lower case, no dot at its end, an IPv6 address in its shortest form."""
    with suppress(BadInput):
        host = host if host.isascii() else _in_ascii(host)
    host = host.lower().removesuffix(".")
    address = read_ip(host)
    return host if address is None else str(address)


def refusal_of(origin: Origin, *, is_allowed: bool) -> str | None:
    """Why nobody is asked there, as far as one can tell without looking the host up; ``None``: no reason yet.

    ``is_allowed``: the operator has named this very host and port.
    """
    address = read_ip(origin.host)
    if is_metadata_name(origin.host) or (address is not None and is_metadata(address)):
        return METADATA
    if is_allowed:
        return None
    if not is_web_port(origin.port):
        return f"port {origin.port} is not one that web pages are served on"
    if origin.host == "localhost" or origin.host.endswith(".localhost"):
        return NOT_PUBLIC
    return refusal_of_addresses((origin.host,), is_allowed=False) if address is not None else None


def refusal_of_addresses(found: Collection[str], *, is_allowed: bool) -> str | None:
    """Why a host with these addresses is not asked: one that is not public is enough."""
    addresses = [read_ip(each) for each in found]
    if any(address is not None and is_metadata(address) for address in addresses):
        return METADATA
    if is_allowed:
        return None
    if not all(address is not None and is_public(address) for address in addresses):
        return NOT_PUBLIC
    return None


def is_web_port(port: int) -> bool:
    """80, 443, and those from 1024 on that no other well-known service listens on."""
    return port in {80, 443} or (1024 <= port <= 65_535 and port not in _LINE_SERVICES)


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    if netloc.startswith("["):
        inside, bracket, rest = netloc[1:].partition("]")
        address = read_ip(inside)
        if not bracket or not isinstance(address, IPv6Address) or address.scope_id is not None:
            raise BadInput("the address has no valid IPv6 address between its brackets")
        if rest and not rest.startswith(":"):
            raise BadInput("the address has something between its host and its port")
        return str(address), _port(rest[1:]) if rest else None
    host, colon, port = netloc.partition(":")
    return _host(host), _port(port) if colon else None


def _port(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) <= 65_535):
        raise BadInput("the address has a port that can't be")
    return int(text)


def _host(text: str) -> str:
    """In ASCII and lower case, without the dot at its end. Raises ``BadInput`` for what is no host's name.

    A name that ends in a number is an IPv4 address to the socket layer, however oddly it is written: anything but
    four decimal numbers is refused.
    """
    if not text or len(text) > _LONGEST_HOST:
        raise BadInput("the address names no host, or one with a name that is too long")
    if "%" in text:
        raise BadInput("the address has a percent sign in its host")
    host = (text if text.isascii() else _in_ascii(text)).lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > _LONGEST_HOST or not all(_LABEL.fullmatch(each) and len(each) <= _LONGEST_LABEL for each in labels):
        raise BadInput("the address names no host")
    if _NUMBER.fullmatch(labels[-1]):
        address = read_ip(host)
        if address is None:
            raise BadInput("an IPv4 address is written as four decimal numbers")
        return str(address)
    return host


def _in_ascii(text: str) -> str:
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise BadInput("the address names a host with letters that no host's name has") from error
