"""Calls of services by plugins: guarded as everything that asks the web, over real HTTP."""

import time

import pytest

from lucyd_plugin import (
    PluginAuth,
    PluginEmptyOutput,
    PluginError,
    PluginInvalidInput,
    PluginNotConfigured,
    PluginQuota,
    PluginTransient,
    PluginUpstream,
)
from lucyd_plugin.calling import post
from tests.speech_server import Act, speaking
from tests.stack import free_port


async def called(url: str, configured: str = "", timeout: float = 5, at_most: int = 1000) -> bytes:
    return await post(
        url, headers={"x-key": "k"}, json={"a": 1}, timeout=timeout, at_most=at_most, configured=configured
    )


async def test_an_address_of_the_operators_is_asked_wherever_it_is() -> None:
    """A server of speech in one's own house is the usual case; what comes behind host and port is free."""
    with speaking(b"an answer") as server:
        assert await called(f"{server.url}/v1/voice-1", configured=f"{server.url}/v1/{{voice_id}}") == b"an answer"
        form = {"file": ("a.wav", b"RIFF", "audio/wav")}
        await post(server.url, headers={}, data={"b": "2"}, files=form, timeout=5, configured=server.url)
    told, formed = server.received
    assert (told.path, told.body, told.headers["x-key"]) == ("/v1/voice-1", {"a": 1}, "k")
    assert (formed.body["file"].data, formed.body["file"].filename, formed.body["b"].data) == (b"RIFF", "a.wav", b"2")


async def test_nobody_else_in_ones_own_house_is_asked() -> None:
    """A plugin that puts an address together from what a model says reaches the public web alone."""
    with speaking(b"an answer") as server, speaking(b"of a neighbour") as neighbour:
        for url, configured in (
            (server.url, ""),
            (neighbour.url, server.url),
            (server.url.replace("127.0.0.1", "localhost"), server.url),
            (server.url.replace("127.0.0.1", "[::ffff:127.0.0.1]"), server.url),
            (server.url, "https://api.example.com/{voice_id}"),
        ):
            with pytest.raises(PluginNotConfigured, match="the address is not asked"):
                await called(url, configured)
    assert server.received == neighbour.received == []


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://metadata.google.internal/",
        "http://{voice_id}/",
        "no address",
        "file:///etc/passwd",
    ],
)
async def test_what_no_operator_can_mean_is_never_asked(url: str) -> None:
    """A cloud's secrets, and what is no address."""
    with pytest.raises(PluginNotConfigured):
        await called(url, configured=url)


async def test_it_follows_nobody_elsewhere() -> None:
    """Neither key nor body go where a service, or who has taken its place, sends them."""
    with (
        speaking(b"stolen") as other,
        speaking(f"{other.url}/") as server,
        pytest.raises(PluginUpstream, match="status 307"),
    ):
        await called(server.url, configured=server.url)
    assert other.received == []


@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (401, PluginAuth),
        (429, PluginQuota),
        (422, PluginInvalidInput),
        (503, PluginTransient),
        (500, PluginUpstream),
        ("cut", PluginUpstream),
        ("flood", PluginUpstream),
        ("empty", PluginEmptyOutput),
        (b"x" * 1001, PluginUpstream),
    ],
)
async def test_faults_have_their_kinds(act: Act, fault: type[PluginError]) -> None:
    """By them it is known what may be tried again."""
    with speaking(act) as server, pytest.raises(fault) as raised:
        await called(server.url, configured=server.url)
    assert "canary of the service" not in str(raised.value)


async def test_who_is_not_there_has_done_nothing() -> None:
    """So it may be tried again whatever it is."""
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PluginTransient):
        await called(url, configured=url)


async def test_a_call_has_an_end() -> None:
    """Over all of it, however slowly somebody answers."""
    began = time.monotonic()
    with speaking("hang") as server, pytest.raises(PluginUpstream, match=r"within 0\.5 s"):
        await called(server.url, configured=server.url, timeout=0.5)
    assert time.monotonic() - began < 5
