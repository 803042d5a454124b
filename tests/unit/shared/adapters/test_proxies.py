"""Which calls a proxy of the environment has."""

import pytest

from shared.adapters.proxies import is_address_proxied, is_proxied


@pytest.mark.parametrize(
    ("variables", "scheme", "proxied"),
    [
        ({}, "https", False),
        ({"HTTPS_PROXY": "http://p:1"}, "https", True),
        ({"https_proxy": "http://p:1"}, "http", False),
        ({"ALL_PROXY": "socks5://p:1"}, "http", True),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a, *"}, "https", False),
        ({"HTTPS_PROXY": ""}, "https", False),
    ],
)
def test_a_proxy_counts_for_the_schemes_it_is_named_for(
    variables: dict[str, str], scheme: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As curl and all others read these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_proxied(scheme) is proxied


@pytest.mark.parametrize(
    ("url", "proxied"),
    [
        ("http://example.com/x", True),
        ("HTTP://EXAMPLE.COM", True),
        ("https://example.com/x", False),
        ("http://LOCALHOST:8000/x", False),
        ("http://127.0.0.1/x", False),
        ("http://[::1]:8000/x", False),
        ("http://user:word@localhost/x", False),
    ],
)
def test_this_machines_own_addresses_are_never_proxied(
    url: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look for them on itself."""
    monkeypatch.setenv("HTTP_PROXY", "http://p:1")
    assert is_address_proxied(url) is proxied
