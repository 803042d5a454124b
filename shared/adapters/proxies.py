"""Which calls a proxy of the environment has: the one place where that is decided for addresses of our operator's."""

from urllib.parse import urlsplit
from urllib.request import getproxies

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def is_proxied(scheme: str) -> bool:
    """The environment names a proxy that may be meant for it. Which hosts are spared is the library's to say."""
    proxies = getproxies()
    spared = [host.strip() for host in proxies.get("no", "").split(",")]
    return "*" not in spared and any(proxies.get(name) for name in (scheme, "all"))


def is_address_proxied(url: str) -> bool:
    """The same of an address: a proxy is for other machines, and could not reach this one's own."""
    parts = urlsplit(url)
    return parts.hostname not in _LOCAL and is_proxied(parts.scheme.lower())
