"""Under which name the failed logins of a client are counted."""

from ipaddress import IPv6Address, IPv6Network, ip_address

NOBODY = "local"
"""A client without an address: it came over a socket of this machine."""

NETWORK_BITS = 64
"""What one household has of IPv6: counting its addresses one by one would give it endlessly many tries."""


def login_address(host: str | None) -> str:
    """The address of an IPv4 client, the network of an IPv6 one."""
    try:
        address = ip_address((host or "").partition("%")[0])
    except ValueError:
        return NOBODY
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return str(IPv6Network((address, NETWORK_BITS), strict=False))
        address = address.ipv4_mapped
    return str(address)
