"""Which addresses of the internet are public, and what URLs say."""
# ruff: noqa: RUF001 - letters that look like others are what this is about

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.domain.addresses import is_metadata, is_public, read_ip
from shared.domain.destination import (
    Origin,
    origin_of,
    plain_host,
    read_destination,
    redirected,
    refusal_of,
    refusal_of_addresses,
)
from shared.errors import BadInput
from tests.ssrf_corpus import LITERALS, RESOLVED

PUBLIC = (
    "8.8.8.8", "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1",
    "198.17.255.255", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::200e", "2001:4860::8888",
    "64:ff9b::8.8.8.8", "2606:4700::5efe:8.8.8.8",
)  # fmt: skip


def guarded(url: str) -> str | None:
    """Why an address is refused without looking anything up."""
    try:
        destination = read_destination(url)
    except BadInput as error:
        return str(error)
    return refusal_of(destination.origin, is_allowed=False)


def socket_layer(host: str) -> str | None:
    """The IPv4 or IPv6 address that the C library takes a host's text for, without asking anybody."""
    try:
        found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError, ValueError):
        return None
    return str(found[0][4][0])


@pytest.mark.parametrize("url", LITERALS)
def test_no_address_of_the_corpus_is_let_through(url: str) -> None:
    """Without looking anything up."""
    assert guarded(url) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    """The edges of the private ranges are outside of them."""
    assert is_public(ip_address(address))
    assert guarded(f"http://[{address}]/" if ":" in address else f"https://{address}/") is None


@pytest.mark.parametrize("found", RESOLVED)
def test_one_address_that_is_not_public_is_enough(found: tuple[str, ...]) -> None:
    """Else a name with two of them would be called at either."""
    assert refusal_of_addresses(found, is_allowed=False) is not None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
     "2002:a9fe:a9fe::1", "fe80::a9fe:a9fe%eth0", "::169.254.169.254"],
)  # fmt: skip
def test_not_even_an_operator_is_let_at_the_metadata_of_the_cloud(address: str) -> None:
    """In whatever form, and under any name."""
    assert is_metadata(ip_address(address))
    assert refusal_of_addresses([address], is_allowed=True) is not None
    assert refusal_of(Origin("metadata.google.internal", 80), is_allowed=True) is not None


def test_an_operator_names_what_is_allowed_whatever_it_is() -> None:
    """A private address, an odd port."""
    assert refusal_of(Origin("10.0.0.5", 6379), is_allowed=True) is None
    assert refusal_of_addresses(["127.0.0.1", "::1"], is_allowed=True) is None


@pytest.mark.parametrize(
    ("written", "origin"),
    [
        ("http://Models.Example:8080/v1", ("models.example", 8080)),
        ("https://models.example./x?y#z", ("models.example", 443)),
        ("http://models.example", ("models.example", 80)),
        ("wiki.internal:8443", ("wiki.internal", 8443)),
        ("wiki.internal", ("wiki.internal", 443)),
        ("http://[0:0::1]:9/", ("::1", 9)),
        ("https://user:word@bücher.example/{voice_id}", ("xn--bcher-kva.example", 443)),
        ("http://127.1:80", ("127.1", 80)),
    ],
)
def test_an_operators_address_is_a_host_and_a_port(written: str, origin: tuple[str, int]) -> None:
    """Read as leniently as it is called."""
    assert origin_of(written) == Origin(*origin)


@pytest.mark.parametrize("written", ["", "ftp://x", "http://", "http://x:99999", "http://[::1", "::::"])
def test_what_names_nobody_is_no_origin(written: str) -> None:
    """One sentence at the start rather than a tool that is silently narrower."""
    with pytest.raises(BadInput):
        origin_of(written)


@pytest.mark.parametrize(
    ("url", "again"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/a b".replace(" ", "%20"), "https://example.com/a%20b"),
        ("  http://example.com/x  ", "http://example.com/x"),
        ("http://example.com:80?q=1#top", "http://example.com/?q=1"),
        ("http://example.com./", "http://example.com/"),
        ("https://bücher.example/straße?ä=ö", "https://xn--bcher-kva.example/stra%C3%9Fe?%C3%A4=%C3%B6"),
        ("https://faß.example/", "https://xn--fa-hia.example/"),
        ("http://[2606:4700:0:0::1111]:8080/x", "http://[2606:4700::1111]:8080/x"),
        ("http://a_b.example/'\"<>{}|^`", "http://a_b.example/'%22%3C%3E%7B%7D%7C%5E%60"),
        ("https://example.com/%2e%2E/%zz", "https://example.com/%2e%2E/%zz"),
    ],
)
def test_an_address_is_written_anew_from_what_was_understood(url: str, again: str) -> None:
    """Nobody after us reads the text that came."""
    assert read_destination(url).url == again
    assert read_destination(again).url == again


@pytest.mark.parametrize(
    ("location", "to"),
    [
        ("/b", "https://a.example/b"),
        ("b?c", "https://a.example/x/b?c"),
        ("//c.example/", "https://c.example/"),
        ("https://c.example:8443/", "https://c.example:8443/"),
        ("?q", "https://a.example/x/y?q"),
    ],
)
def test_a_redirect_may_be_relative(location: str, to: str) -> None:
    """As servers write them."""
    assert redirected(read_destination("https://a.example/x/y"), location).url == to


@pytest.mark.parametrize(
    "location",
    ["http://a.example/", "ftp://a.example/", "https://u@a.example/", "/\r\nx", "https://[", "\\\\c.example"],
)
def test_a_redirect_to_something_else_is_refused(location: str) -> None:
    """https does not become http on the way."""
    with pytest.raises(BadInput):
        redirected(read_destination("https://a.example/x"), location)


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
@example(IPv4Address("127.0.0.1"))
def test_what_python_holds_private_is_not_public_here(address: IPv4Address) -> None:
    """Two tables made by different people."""
    if address.is_private or address.is_multicast or address.is_reserved or address.is_loopback:
        assert not is_public(address)


@given(st.integers(0, 2**128 - 1).map(IPv6Address) | st.integers(0, 2**32 - 1).map(lambda n: IPv6Address(n)))
@example(IPv6Address("fec0::1"))
def test_what_python_holds_private_in_ipv6_is_not_public_here(address: IPv6Address) -> None:
    """With all its special blocks."""
    special = address.is_private or address.is_multicast or address.is_loopback or address.is_site_local
    if special or address.is_link_local or address.is_unspecified:
        assert not is_public(address)


@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["::ffff:0:0", "64:ff9b::", "64:ff9b:1::", "::", "2606:4700::5efe:0:0"])
)
def test_an_address_in_an_address_is_judged_by_what_it_carries(four: int, prefix: str) -> None:
    """A gateway on the way unpacks it."""
    carrier = IPv6Address(int(IPv6Address(prefix)) + four)
    assert not is_public(carrier) or is_public(IPv4Address(four))


NUMBER = st.integers(0, 2**33).flatmap(
    lambda n: st.sampled_from([str(n), hex(n), f"0{n:o}", f"0x{n:X}", f"{n:03}", hex(n)[2:], f"0X{n:x}"])
) | st.sampled_from(["127", "10", "169", "254", "0", "1", "0x7f", "0177", "", "１２７", "①"])
DOT = st.sampled_from([".", "。", "．", "｡", ".."])
HOSTS = (
    st.lists(st.tuples(NUMBER, DOT), min_size=1, max_size=5).map(
        lambda parts: "".join(a + b for a, b in parts)[: -1 or None]
    )
    | st.lists(NUMBER, min_size=1, max_size=5).map(".".join)
    | st.integers(0, 2**128 - 1).map(lambda n: f"[{IPv6Address(n)}]")
    | st.text("0123456789abcdefx.:%[]@/\\?#-_ \t\n", max_size=24)
    | st.text(max_size=12)
)


@given(HOSTS)
@example("127.1")
@example("0x7f.1")
@example("１２７.0.0.1")
@example("[::ffff:127.0.0.1]")
@example("0177.1")
def test_nothing_that_the_socket_layer_takes_for_a_private_address_is_let_through(host: str) -> None:
    """Whatever is in the text: what would be called without asking anybody is public, and is what was judged."""
    try:
        destination = read_destination(f"http://{host}/")
    except BadInput:
        return
    if refusal_of(destination.origin, is_allowed=False) is not None:
        return
    called = socket_layer(destination.host)
    if called is not None:
        assert called == destination.host
        assert is_public(ip_address(called))
    raw = socket_layer(host.strip("[]"))
    if raw is not None:
        assert is_public(ip_address(raw))


@given(st.text(max_size=60))
def test_reading_an_address_is_refused_or_steady(text: str) -> None:
    """No text breaks it, and what it wrote it reads the same."""
    for url in (text, f"http://{text}", f"http://example.com/{text}"):
        try:
            destination = read_destination(url)
        except BadInput:
            continue
        assert destination.url.isascii()
        assert destination.url.isprintable()
        assert read_destination(destination.url) == destination
        assert plain_host(destination.host) == destination.host
        assert read_ip(destination.host) is None or ":" in destination.host or destination.host.count(".") == 3
