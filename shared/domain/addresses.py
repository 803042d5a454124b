"""Which internet addresses are public: those that anybody may be sent to by a text that nobody has checked.

What is not known to be public is not. The tables follow the IANA registries of special-purpose addresses; Python's own
``is_global`` differs between its patch releases, and it does not look into addresses that carry another one.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

IpAddress = IPv4Address | IPv6Address

_SPECIAL_4 = tuple(
    IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by customers of a carrier; clouds keep services there
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's own service, inside its machines
        "169.254.0.0/16",  # link-local
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
_SPECIAL_6 = tuple(
    IPv6Network(each)
    for each in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: whatever IPv4 address is written in it
        "3ffe::/16",  # given back
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
"""How machines without IPv4 reach it: the last four bytes are the IPv4 address."""

_EMBEDDING_LAST = (_NAT64, IPv6Network("64:ff9b:1::/96"), IPv6Network("::ffff:0:0/96"), IPv6Network("::/96"))
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)

_METADATA = frozenset(
    ip_address(each)
    for each in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.0.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
    )
)
_METADATA_NAMES = frozenset({"metadata", "instance-data", "instance-data.ec2.internal", "metadata.goog"})
_METADATA_ENDINGS = ("metadata.google.internal", "metadata.azure.internal", "metadata.tencentyun.com")


def read_ip(text: str) -> IpAddress | None:
    """The address that a resolver or a URL has written in its usual form; ``None`` for anything else."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_public(address: IpAddress) -> bool:
    """Whether it is an address of the open internet, and carries no other one that is not."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(_last_four(address))
    if address not in _GLOBAL_6 or any(address in network for network in _SPECIAL_6):
        return False
    is_tunnel = (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP
    return not is_tunnel or is_public(_last_four(address))


def is_metadata(address: IpAddress) -> bool:
    """Whether a cloud tells its secrets there, to whoever asks from inside. Nobody has business there."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        address = IPv6Address(int(address))
    return any(each in _METADATA for each in (address, *_carried(address)))


def is_metadata_name(host: str) -> bool:
    """Whether it is a name of such a place; ``host`` is in lower case and has no dot at its end."""
    return host in _METADATA_NAMES or any(host == each or host.endswith(f".{each}") for each in _METADATA_ENDINGS)


def _carried(address: IpAddress) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address may stand for."""
    if isinstance(address, IPv4Address):
        return ()
    found = [_last_four(address)] if any(address in network for network in _EMBEDDING_LAST) else []
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        found.append(_last_four(address))
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    return tuple(found)


def _last_four(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)
