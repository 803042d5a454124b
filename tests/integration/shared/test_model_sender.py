"""What goes out to a provider and what may come back, on the way of our own and on the library's."""

import asyncio
import gzip
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import orjson
import pytest

from shared.adapters.models.open_model import open_models
from shared.domain.provider import ModelSpec, ProviderType
from shared.errors import ModelRejected, ModelTimeout, TryLater
from shared.ports.model import Model, ModelAnswer, ModelRequest
from tests.raw_provider import CLOSE, Pieces, RawProvider, chunked, raw_provider, with_length

KEY = "sk-never-to-be-shown-1234"
WIRES: tuple[ProviderType, ...] = ("openai", "anthropic")
JSON = b"content-type: application/json\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> ProviderType:
    chosen: ProviderType = request.param
    return chosen


@pytest.fixture(autouse=True)
def _no_proxy_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@dataclass
class Told:
    """A model, its provider, and what the caller heard."""

    model: Model
    provider: RawProvider
    heard: list[str]

    async def ask(self, *, timeout: timedelta = timedelta(seconds=5)) -> ModelAnswer:
        request = ModelRequest(uuid4(), [], [{"role": "user", "content": "hello"}], timeout=timeout)
        return await self.model.answer(request, lambda _, piece: self.heard.append(piece))


def spec_for(wire: ProviderType, url: str) -> ModelSpec:
    base_url = f"{url}/v1" if wire == "openai" else url
    return ModelSpec("primary", wire, "m", base_url=base_url, api_key=KEY, api_key_env="M_KEY", headers={"X-T": "blue"})


@asynccontextmanager
async def told(
    wire: ProviderType, *answers: Pieces, url: str = "", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Told]:
    async with raw_provider(*answers, tls=tls) as provider:
        spec = spec_for(wire, url or provider.url)
        if tls is not None:
            spec = replace(spec, base_url=(spec.base_url or "").replace("http:", "https:"))
        async with open_models({"primary": spec}) as models:
            yield Told(models["primary"], provider, [])


def events(wire: ProviderType, *texts: str) -> list[bytes]:
    """The events of an answer; the last one ends it."""
    if wire == "openai":
        deltas = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in texts]
        ending = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return [*(_event(delta) for delta in [*deltas, ending]), b"data: [DONE]\n\n"]
    return [
        _event({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
        _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        *(
            _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
            for text in texts
        ),
        _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        _event({"type": "message_stop"}),
    ]


def _event(value: object) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(value)


def whole(wire: ProviderType, text: str) -> bytes:
    """An answer in one piece."""
    if wire == "openai":
        return orjson.dumps({"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]})
    content = [{"type": "text", "text": text}]
    return orjson.dumps({"type": "message", "content": content, "stop_reason": "end_turn", "usage": {}})


def head_of(request: bytes) -> dict[str, str]:
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


async def test_calls_that_follow_each_other_use_one_connection(wire: ProviderType) -> None:
    """Also when the last chunk of the stream comes by itself, after its end marker."""
    body = b"".join(events(wire, "one ", "two"))
    late: Pieces = [STREAM + chunked(body).removesuffix(b"0\r\n\r\n"), 0.02, b"0\r\n\r\n"]
    async with told(
        wire, [STREAM + chunked(body)], late, late, [with_length(whole(wire, "one two"), headers=JSON)]
    ) as story:
        for _ in range(4):
            assert (await story.ask()).text == "one two"
            await asyncio.sleep(0.05)
        assert story.provider.connections == 1
        assert "".join(story.heard) == "one two" * 4


async def test_what_goes_out_is_what_the_sdk_would_send(wire: ProviderType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head is written once and not for each call; key, version, agent and configured headers must not differ."""
    answer: Pieces = [with_length(whole(wire, "x"), headers=JSON)]
    async with told(wire, answer) as ours:
        await ours.ask()
        await ours.ask()
        monkeypatch.setenv("HTTP_PROXY", ours.provider.url)
        async with open_models({"primary": spec_for(wire, ours.provider.url)}) as models:
            await Told(models["primary"], ours.provider, []).ask()
    first, second, library = ours.provider.requests
    assert library.startswith(b"POST http://127.0.0.1")
    assert first.startswith(b"POST /v1/")
    heads = [head_of(request) for request in (first, second, library)]
    assert len({head.pop("x-lucyd-call-id") for head in heads}) == 3
    assert [head.pop("accept-encoding") for head in heads][:2] == ["identity"] * 2
    heads[2].pop("proxy-connection", None)
    assert heads[0] == heads[1] == heads[2]
    assert heads[0]["x-t"] == "blue"
    assert heads[0]["authorization"] == f"Bearer {KEY}"
    assert {request.partition(b"\r\n\r\n")[2] for request in ours.provider.requests} == {
        first.partition(b"\r\n\r\n")[2]
    }


async def test_a_proxy_of_the_environment_is_used(wire: ProviderType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the way out leads through a proxy there is no other way."""
    async with raw_provider([STREAM + chunked(*events(wire, "through"))]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with told(wire, [CLOSE], url="http://provider.invalid") as story:
            assert (await story.ask()).text == "through"
        assert proxy.requests[0].startswith(b"POST http://provider.invalid/v1/")
        assert story.provider.requests == []


async def test_hosts_that_the_environment_spares_are_asked_directly(
    wire: ProviderType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    async with told(wire, [STREAM + chunked(*events(wire, "direct"))]) as story:
        assert (await story.ask()).text == "direct"
        assert story.provider.requests[0].startswith(b"POST /v1/")


async def test_a_redirect_is_followed(wire: ProviderType) -> None:
    """People move their servers; the SDKs follow, and what they refuse after that is a refusal as any other."""
    async with raw_provider([STREAM + chunked(*events(wire, "moved"))]) as there:
        moved = with_length(b"", status=b"307 Temporary Redirect", headers=b"location: %b/new\r\n" % there.url.encode())
        async with told(wire, [moved]) as story:
            assert (await story.ask()).text == "moved"
            assert there.requests[0].startswith(b"POST /new ")
    circle = with_length(b"", status=b"308 Permanent Redirect", headers=b"location: /v1\r\n")
    async with told(wire, [circle]) as story:
        with pytest.raises(TryLater):
            await story.ask()


async def test_an_answer_packed_unasked_is_unpacked(wire: ProviderType) -> None:
    packed = gzip.compress(b"".join(events(wire, "un", "packed")))
    stream = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n") + chunked(packed[:20], packed[20:])
    plain = with_length(gzip.compress(whole(wire, "unpacked")), headers=JSON + b"content-encoding: gzip\r\n")
    async with told(
        wire, [stream], [plain], [with_length(b"not gzip", headers=b"content-encoding: gzip\r\n")]
    ) as story:
        assert (await story.ask()).text == "unpacked"
        assert (await story.ask()).text == "unpacked"
        assert story.provider.connections == 1
        with pytest.raises(TryLater, match="DecodingError"):
            await story.ask()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no  such\\n model"}}', "answered 404: no such model"),
        (b'{"detail": "gone"}', "answered 404: gone"),
        (b"plain words", "answered 404: plain words"),
        (b"<html>nginx</html>", "answered 404\\."),
        (b"\xff\xfe", "answered 404"),
        (b"", "answered 404\\."),
        (b'{"error": {"message": "your key sk-never-to-be-shown-1234"}}', "your key \\*\\*\\*"),
    ],
)
async def test_a_refusal_is_told_in_the_words_of_the_provider(wire: ProviderType, body: bytes, said: str) -> None:
    async with told(wire, [with_length(body, status=b"404 Not Found")]) as story:
        with pytest.raises(ModelRejected, match=said):
            await story.ask()
        with pytest.raises(ModelRejected):
            await story.ask()
        assert story.provider.connections == 1


async def test_a_provider_in_trouble_says_when_to_come_back(wire: ProviderType) -> None:
    busy = with_length(b"{}", status=b"503 Busy", headers=b"Retry-After: 7\r\n")
    async with told(wire, [busy]) as story:
        with pytest.raises(TryLater) as caught:
            await story.ask()
        assert caught.value.after == 7


@pytest.mark.parametrize(
    ("pieces", "fault", "said"),
    [
        ([CLOSE], TryLater, "RemoteProtocolError"),
        ([b"HTTP/1.1 200 OK\r\nhalf", CLOSE], TryLater, "RemoteProtocolError"),
        ([b"garbage\r\n\r\n"], TryLater, "RemoteProtocolError"),
        ([STREAM, CLOSE], TryLater, "RemoteProtocolError"),
        ([STREAM + b"5\r\ndata:", CLOSE], TryLater, "RemoteProtocolError"),
        ([STREAM + chunked()], TryLater, "broke off"),
        ([STREAM + chunked(b"data: {half\n\n")], TryLater, "can't be read"),
        ([with_length(b"{half", headers=JSON)], TryLater, "not JSON"),
        ([with_length(b"[1]", headers=JSON)], TryLater, "not a JSON object"),
        ([with_length(b"<html>", headers=b"content-type: text/html\r\n")], ModelRejected, "base_url"),
        ([b"HTTP/1.1 500 Oops\r\ncontent-length: 9\r\n\r\nhalf", CLOSE], TryLater, "RemoteProtocolError"),
    ],
)
async def test_a_malformed_answer_is_an_error_of_the_port(
    wire: ProviderType, pieces: Pieces, fault: type[Exception], said: str
) -> None:
    """Whatever a provider sends, the run must hear one of the errors it knows what to do about."""
    async with told(wire, pieces, [STREAM + chunked(*events(wire, "fine"))]) as story:
        with pytest.raises(fault, match=said) as caught:
            await story.ask()
        assert KEY not in str(caught.value)
        assert story.heard == []
        assert (await story.ask()).text == "fine"


async def test_a_lost_call_is_one_request(wire: ProviderType) -> None:
    """Also on a kept connection: each request has its own reservation, so sending it again is the caller's."""
    async with told(wire, [STREAM + chunked(*events(wire, "x"))], [CLOSE]) as story:
        await story.ask()
        with pytest.raises(TryLater):
            await story.ask()
        assert len(story.provider.requests) == 2
        assert story.provider.connections == 1


async def test_the_time_of_a_call_covers_a_stream_that_dries_up(wire: ProviderType) -> None:
    first = events(wire, "begun")[:2]
    async with told(wire, [STREAM + chunked(*first).removesuffix(b"0\r\n\r\n"), 5.0]) as story:
        with pytest.raises(ModelTimeout):
            await story.ask(timeout=timedelta(seconds=0.2))
        await story.provider.sees(lambda provider: len(provider.requests) == 1)


async def test_what_the_listener_raises_passes_and_ends_the_call(wire: ProviderType) -> None:
    """A worker that lost its claim stops the answer this way; the provider hears it by the closed connection."""

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    begun = chunked(*events(wire, "a", "b")[:3]).removesuffix(b"0\r\n\r\n")
    goes_on: list[bytes | float] = [chunked(b": on\n\n").removesuffix(b"0\r\n\r\n"), 0.05]
    async with told(wire, [STREAM + begun, 0.1, *goes_on * 100]) as story:
        request = ModelRequest(uuid4(), [], [{"role": "user", "content": "hello"}])
        with pytest.raises(Stop):
            await story.model.answer(request, stop)
        await story.provider.sees(lambda provider: provider.open_connections == 0)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1, in one file."""
    made = tmp_path_factory.mktemp("authority") / "both.pem"
    key, signed = made.with_suffix(".key"), made.with_suffix(".crt")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=provider.test"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(signed)]
    subprocess.run(words, check=True, capture_output=True)
    made.write_bytes(key.read_bytes() + signed.read_bytes())
    return made


@pytest.mark.parametrize("trusted", [True, False])
async def test_certificates_are_trusted_as_the_library_does(
    wire: ProviderType, authority: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSL_CERT_FILE is how companies name their own authority."""
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server complains of refused handshakes
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority)
    async with told(wire, [STREAM, 0.02, chunked(*events(wire, "in ", "secret"))], tls=tls) as story:
        if trusted:
            assert [(await story.ask()).text for _ in range(2)] == ["in secret"] * 2
            assert story.provider.connections == 1
        else:
            with pytest.raises(TryLater, match="ConnectError"):
                await story.ask()


async def test_pieces_that_come_together_are_told_together(wire: ProviderType) -> None:
    """Every piece that is told is an event for whoever passes it on; viewers can't see them one by one anyway."""
    body = [STREAM + chunked(b"".join(events(wire, "one ", "two ", "three")))]
    async with told(wire, body) as story:
        await story.ask()
        assert story.heard == ["one two three"]
