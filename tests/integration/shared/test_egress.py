"""The way out to the web: nobody is asked who may not be, and what comes is bounded."""

import asyncio
import contextlib
import datetime
import gzip
import itertools
import re
import socket
import ssl
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from shared.adapters.http.egress import HttpEgress, open_egress
from shared.adapters.http.guarded_network import GuardedNetwork, SystemResolver, is_own
from shared.adapters.http.guarded_transport import GuardedTransport
from shared.domain.destination import Origin
from shared.ports.egress import Answer, EgressFailed, EgressRefused, Question, UnwantedContent
from tests.detour import Detour, FakeResolver
from tests.raw_provider import CLOSE, Pieces, RawProvider, chunked, raw_provider, with_length
from tests.ssrf_corpus import LITERALS, RESOLVED

PUBLIC = "93.184.216.34"
OTHER = "8.8.4.4"
TLS = ssl.create_default_context()
OK = with_length(b"fine", headers=b"content-type: text/plain\r\n")
HEAD = b"HTTP/1.1 200 OK\r\n"


def question(url: str, **others: object) -> Question:
    return Question(**{"url": url, "within": timedelta(seconds=5), **others})  # type: ignore[arg-type]


def redirect(location: str, status: int = 302) -> bytes:
    return with_length(b"", status=b"%d Elsewhere" % status, headers=b"location: %b\r\n" % location.encode())


def is_redirect(url: str) -> bool:
    """A header can carry it, and it is not meant relative."""
    return "://" in url and not any(ord(each) < 32 or 0xD800 <= ord(each) < 0xE000 for each in url)


def path_of(request: bytes) -> str:
    return request.split(b" ", 2)[1].decode()


@contextlib.asynccontextmanager
async def web(
    *answers: Pieces,
    known: dict[str, list[Sequence[str]]] | None = None,
    choose: Callable[[bytes], Pieces] | None = None,
    dead: Sequence[str] = (),
    server_tls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[HttpEgress, RawProvider, Detour, FakeResolver]]:
    """A web of one server at every public address, a resolver that knows what it is told, and a client."""
    async with raw_provider(*answers, choose=choose, tls=server_tls) as site:
        resolver = FakeResolver(known if known is not None else {"a.example": [[PUBLIC]], "b.example": [[OTHER]]})
        detour = Detour(site.port, dead=dead)
        network = GuardedNetwork(resolver=resolver, network=detour)
        async with open_egress(network=network, tls=tls or TLS) as egress:
            yield egress, site, detour, resolver


@contextlib.asynccontextmanager
async def own_site(
    *answers: Pieces, choose: Callable[[bytes], Pieces] | None = None
) -> AsyncIterator[tuple[HttpEgress, RawProvider]]:
    """A server of this machine that its operator has named."""
    async with (
        raw_provider(*answers, choose=choose) as site,
        open_egress([Origin("127.0.0.1", site.port)], tls=TLS) as egress,
    ):
        yield egress, site


async def test_the_web_is_asked_and_answers() -> None:
    """The one address that was looked up is called, under the host's own name."""
    async with web([OK]) as (egress, site, detour, resolver):
        answer = await egress.ask(question("http://a.example/x?y=1#z", headers={"X-Mine": "1"}))
    assert (answer.status, answer.body, answer.url) == (200, b"fine", "http://a.example/x?y=1")
    assert (answer.content_type, answer.is_cut) == ("text/plain", False)
    assert detour.called == [(PUBLIC, 80)]
    assert resolver.asked == ["a.example"]
    assert site.requests[0].startswith(b"GET /x?y=1 HTTP/1.1\r\n")
    assert b"\r\nhost: a.example\r\n" in site.requests[0].lower()
    assert b"\r\nx-mine: 1\r\n" in site.requests[0].lower()


@pytest.mark.parametrize("url", LITERALS)
async def test_no_address_of_the_corpus_is_called(url: str) -> None:
    """Nor looked up, nor called."""
    async with web([OK], known={}) as (egress, site, detour, resolver):
        with pytest.raises(EgressRefused) as refused:
            await egress.ask(question(url))
    assert (site.connections, detour.called, resolver.asked) == (0, [], [])
    assert not url or len(url) < 8 or url not in str(refused.value)


@pytest.mark.parametrize("url", [url for url in LITERALS if is_redirect(url)])
async def test_no_redirect_leads_to_an_address_of_the_corpus(url: str) -> None:
    """From a server that may be asked, by each kind of redirect that could be meant absolute."""
    async with own_site([redirect(url)]) as (egress, site):
        with pytest.raises((EgressRefused, EgressFailed)):
            await egress.ask(question(f"{site.url}/start"))
        assert len(site.requests) == 1


@pytest.mark.parametrize("found", RESOLVED)
async def test_a_name_that_stands_for_a_private_address_is_not_called(found: Sequence[str]) -> None:
    """Whatever the name looks like, and though another of its addresses is public."""
    async with web([OK], known={"nice.example": [found]}) as (egress, _, detour, _):
        with pytest.raises(EgressRefused):
            await egress.ask(question("https://nice.example/"))
    assert detour.called == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.1", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_the_machines_own_resolver_is_not_trusted_either(host: str) -> None:
    """With the real one, and a server that really is there."""
    async with raw_provider([OK]) as site, open_egress() as egress:
        with pytest.raises(EgressRefused):
            await egress.ask(question(f"http://{host}:{site.port}/"))
        assert site.connections == 0


async def test_a_name_that_changes_its_mind_is_called_at_the_address_that_was_judged() -> None:
    """DNS rebinding: the second answer is this machine, and nobody hears it."""
    async with web([OK], known={"a.example": [[PUBLIC], ["127.0.0.1"]]}) as (egress, _, detour, resolver):
        assert (await egress.ask(question("http://a.example/"))).body == b"fine"
        assert resolver.asked == ["a.example"]
        assert detour.called == [(PUBLIC, 80)]


async def test_a_name_that_changed_its_mind_is_judged_anew_at_the_next_connection() -> None:
    """Also in the middle of a chain of redirects."""
    answers: list[Pieces] = [[redirect("http://a.example:8080/")], [OK]]
    async with web(*answers, known={"a.example": [[PUBLIC], ["127.0.0.1"]]}) as (egress, _, detour, resolver):
        with pytest.raises(EgressRefused):
            await egress.ask(question("http://a.example/"))
        assert resolver.asked == ["a.example", "a.example"]
        assert detour.called == [(PUBLIC, 80)]


async def test_the_next_address_is_tried_where_the_first_is_dead() -> None:
    """A machine without IPv6 still reaches those that have both."""
    known: dict[str, list[Sequence[str]]] = {"a.example": [["2606:4700::1", "2606:4700::2", PUBLIC]]}
    async with web([OK], known=known, dead=["2606:4700::1"]) as (egress, _, detour, _):
        assert (await egress.ask(question("http://a.example/"))).status == 200
    assert detour.called == [("2606:4700::1", 80), (PUBLIC, 80)]


class NumbersOnly:
    """What the C library makes of a host's text without asking anybody."""

    async def addresses(self, host: str) -> Sequence[str]:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(info[4][0]) for info in infos]


async def test_the_network_alone_guards_a_client_that_reads_addresses_by_itself() -> None:
    """The last line stands without the first: webhooks, and whoever brings an HTTP client of his own."""
    reached = []
    async with raw_provider([OK]) as site:
        detour = Detour(site.port)
        transport = GuardedTransport(GuardedNetwork(resolver=NumbersOnly(), network=detour), tls=TLS)
        async with httpx2.AsyncClient(transport=transport, follow_redirects=True) as client:
            for url in LITERALS:
                with contextlib.suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError):
                    await client.get(url)
                    reached.append(url)
            with pytest.raises(httpx2.ConnectError, match="port 6379"):
                await client.get("http://8.8.8.8:6379/")
            with pytest.raises(httpx2.ConnectError, match="cloud"):
                await client.get("http://metadata.google.internal/")
    # The rest of the corpus is refused for how it is written, and leads to a public address.
    assert {host for host, _ in detour.called} <= {"8.8.8.8", "3.3.3.3"}
    assert {port for _, port in detour.called} == {80}
    assert not [url for url in reached if not re.search(r"8\.8\.8\.8|٣", url)]


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy looks hosts up by itself, and stands inside."""
    async with raw_provider([OK]) as proxy, web([OK]) as (egress, _, detour, _):
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        await egress.ask(question("http://a.example/"))
        async with open_egress() as another:
            with pytest.raises(EgressRefused):
                await another.ask(question("http://127.0.0.1:8100/"))
        assert proxy.connections == 0
    assert len(detour.called) == 1


async def test_what_its_operator_named_is_asked_by_exact_host_and_port() -> None:
    """And nothing beside it."""
    async with own_site([OK]) as (egress, site), raw_provider([OK]) as neighbour:
        assert (await egress.ask(question(site.url))).body == b"fine"
        for url in (neighbour.url, f"http://localhost:{site.port}/", f"http://[::1]:{site.port}/"):
            with pytest.raises(EgressRefused):
                await egress.ask(question(url))
        assert neighbour.connections == 0


@pytest.mark.parametrize("host", ["169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]"])
async def test_not_even_its_operator_has_the_metadata_of_the_cloud_asked(host: str) -> None:
    """A slip of the configuration is not a way to the machine's keys."""
    async with open_egress([Origin(host.strip("[]"), 80)]) as egress:
        with pytest.raises(EgressRefused, match="cloud"):
            await egress.ask(question(f"http://{host}/latest/"))


async def test_a_redirect_away_from_the_operators_address_is_guarded() -> None:
    """An inner server that anybody can have redirect is no door to its neighbours."""
    async with raw_provider([OK]) as neighbour, own_site([redirect(f"{neighbour.url}/secret")]) as (egress, site):
        with pytest.raises(EgressRefused):
            await egress.ask(question(site.url))
        assert neighbour.connections == 0


async def test_the_public_address_of_this_machine_is_not_called() -> None:
    """What is bound to all addresses is reached by the public one too, past the firewall."""
    detour = Detour(9)
    ours = GuardedNetwork(
        resolver=FakeResolver({"me.example": [[OTHER, PUBLIC]]}), network=detour, is_ours=lambda each: each == PUBLIC
    )
    async with open_egress(network=ours, tls=TLS) as egress:
        for url in ("http://me.example/", f"http://{PUBLIC}:8080/"):
            with pytest.raises(EgressRefused, match="this machine"):
                await egress.ask(question(url))
    assert detour.called == []


def test_an_address_of_this_machine_is_known_as_such() -> None:
    """The route says it, and nothing is sent."""
    assert is_own("127.0.0.1")
    assert not is_own(PUBLIC)
    assert not is_own("2606:4700::1111")


async def test_redirects_are_followed_within_bounds() -> None:
    """Relative ones, to other hosts; a loop ends."""
    answers: list[Pieces] = [[redirect("/two")], [redirect("http://b.example/three", 301)], [OK]]
    async with web(*answers) as (egress, site, detour, _):
        answer = await egress.ask(question("http://a.example/one"))
        assert answer.url == "http://b.example/three"
        assert [path_of(each) for each in site.requests] == ["/one", "/two", "/three"]
        assert [host for host, _ in detour.called] == [PUBLIC, PUBLIC, OTHER]
    async with web([redirect("/again")]) as (egress, site, _, _):
        with pytest.raises(EgressRefused, match="more than 5 times"):
            await egress.ask(question("http://a.example/"))
        assert len(site.requests) == 6
    async with web([redirect("/again")]) as (egress, site, _, _):
        assert (await egress.ask(question("http://a.example/", redirects=0))).status == 302
        assert len(site.requests) == 1


async def test_https_does_not_become_http(tmp_path: Path) -> None:
    """What was asked under a name that was proven is not answered by anybody on the way."""
    server, client = certificates(tmp_path, "a.example")
    async with web([redirect("http://a.example/")], server_tls=server, tls=client) as (egress, site, _, _):
        with pytest.raises(EgressRefused, match="from https to http"):
            await egress.ask(question("https://a.example/"))
        assert len(site.requests) == 1


async def test_what_is_secret_stays_with_whom_it_was_sent_to() -> None:
    """Tokens, cookies, bodies: another host, another port and another scheme are somebody else."""
    mine = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/html"}
    for elsewhere in ("http://b.example/", "http://a.example:8080/"):
        async with web([redirect(elsewhere)], [OK]) as (egress, site, _, _):
            await egress.ask(question("http://a.example/", headers=mine))
            first, second = (each.lower() for each in site.requests)
        assert all(word in first for word in (b"bearer x", b"cookie: a=b", b"x-api-key: k"))
        assert not any(word in second for word in (b"bearer", b"cookie", b"x-api-key"))
        assert b"accept: text/html" in second
    async with web([redirect("/there")], [OK]) as (egress, site, _, _):
        await egress.ask(question("http://a.example/", headers=mine))
        assert b"bearer x" in site.requests[1].lower()
    async with web([redirect("http://b.example/", 307)], [OK]) as (egress, site, _, _):
        with pytest.raises(EgressRefused, match="somebody else"):
            await egress.ask(question("http://a.example/", method="POST", content=b"{}"))
        assert len(site.requests) == 1


async def test_a_post_becomes_a_get_where_the_standard_says_so() -> None:
    """And is sent again by 307 and 308, to the same origin."""
    for status, method in ((301, b"GET"), (302, b"GET"), (303, b"GET"), (307, b"POST"), (308, b"POST")):
        async with web([redirect("/there", status)], [OK]) as (egress, site, _, _):
            sent = question("http://a.example/", method="POST", content=b"{}", headers={"Content-Type": "text/x"})
            await egress.ask(sent)
            assert site.requests[1].startswith(method)
            assert site.requests[1].endswith(b"{}") == (method == b"POST")
            assert (b"text/x" in site.requests[1]) == (method == b"POST")


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "Proxy-Authorization"])
async def test_headers_that_say_who_is_asked_are_not_the_callers(name: str) -> None:
    """Else the address that was judged and the site that answers were two."""
    async with web([OK]) as (egress, site, _, _):
        with pytest.raises(EgressRefused, match=name.lower()):
            await egress.ask(question("http://a.example/", headers={name: "b.example"}))
        assert site.connections == 0


@pytest.mark.parametrize(("name", "value"), [("X-A", "1\r\nHost: b.example"), ("X-A\r\nX-B", "1"), ("X-A", "1\x00")])
async def test_headers_with_line_breaks_are_not_sent(name: str, value: str) -> None:
    """No second request in one."""
    async with web([OK]) as (egress, site, _, _):
        with pytest.raises(EgressFailed):
            await egress.ask(question("http://a.example/", headers={name: value}))
        assert site.requests == []


async def test_a_long_body_is_cut_and_says_so() -> None:
    """Whether its length was told, was not, or has no end."""

    def endless(request: bytes) -> Pieces:
        return Endless(HEAD + b"connection: close\r\n\r\n", b"x" * 10_000)

    for choose in (lambda _: [with_length(b"x" * 50_000)], lambda _: [HEAD + b"\r\n" + b"x" * 50_000, CLOSE], endless):
        async with own_site(choose=choose) as (egress, site):
            answer = await egress.ask(question(site.url, most_bytes=20_000))
            assert (answer.body, answer.is_cut) == (b"x" * 20_000, True)
    async with own_site([with_length(b"x" * 20_000)]) as (egress, site):
        assert not (await egress.ask(question(site.url, most_bytes=20_000))).is_cut


class Endless(Sequence[bytes | float]):
    """A beginning, and then the same for ever."""

    def __init__(self, beginning: bytes, then: bytes) -> None:
        self._beginning, self._then = beginning, then

    def __getitem__(self, index: Any) -> Any:
        return self._then if index else self._beginning

    def __len__(self) -> int:
        return sys.maxsize


def packed(body: bytes, coding: bytes) -> bytes:
    return with_length(body, headers=b"content-encoding: %b\r\n" % coding)


def bare_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    "answer",
    [
        packed(gzip.compress(b"fine"), b"gzip"),
        packed(gzip.compress(b"fine"), b"X-GZIP"),
        packed(zlib.compress(b"fine"), b"deflate"),
        packed(bare_deflate(b"fine"), b"deflate"),
        packed(b"fine", b"identity"),
        packed(gzip.compress(b"fine") + b"rubbish", b"gzip"),
    ],
)
async def test_what_is_packed_is_unpacked(answer: bytes) -> None:
    """As browsers do it."""
    async with own_site([answer]) as (egress, site):
        got = await egress.ask(question(site.url))
        assert (got.body, got.is_cut) == (b"fine", False)
        assert b"accept-encoding: gzip, deflate\r\n" in site.requests[0].lower()


async def test_what_comes_byte_by_byte_is_unpacked() -> None:
    """The head of what is packed may come in pieces too."""
    for body in (gzip.compress(b"fine"), zlib.compress(b"fine")):
        pieces = [body[index : index + 1] for index in range(len(body))]
        coding = b"gzip" if body[0] == 31 else b"deflate"
        answer = [HEAD + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (coding, len(body)), *pieces]
        async with own_site(list(itertools.chain.from_iterable((each, 0.001) for each in answer))) as (egress, site):
            assert (await egress.ask(question(site.url))).body == b"fine"


async def test_a_bomb_does_not_go_off() -> None:
    """A gigabyte out of a megabyte, and never more than what was wanted in memory."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    async with own_site([packed(bomb, b"gzip")]) as (egress, site):
        started = time.monotonic()
        answer = await egress.ask(question(site.url, most_bytes=100_000))
    assert (len(answer.body), answer.is_cut) == (100_000, True)
    assert time.monotonic() - started < 2


async def test_what_is_packed_and_holds_nothing_comes_to_an_end() -> None:
    """Empty blocks without end: nothing is unpacked, and everybody reads for ever."""
    empty_blocks = b"\x00\x00\x00\xff\xff" * 2_000

    def hollow(request: bytes) -> Pieces:
        return Endless(HEAD + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10], empty_blocks)

    async with own_site(choose=hollow) as (egress, site):
        answer = await egress.ask(question(site.url, most_bytes=20_000))
    assert (answer.body, answer.is_cut) == (b"", True)


@pytest.mark.parametrize("coding", [b"gzip, gzip", b"gzip,gzip,gzip,gzip", b"br", b"zstd", b"compress", b"gzip, br"])
async def test_what_is_packed_twice_or_unheard_of_is_refused(coding: bytes) -> None:
    """Bombs in bombs; and nothing was asked for in these codings."""
    async with own_site([packed(gzip.compress(gzip.compress(b"x")), coding)]) as (egress, site):
        with pytest.raises(EgressFailed, match="unpacked"):
            await egress.ask(question(site.url))


@pytest.mark.parametrize("body", [b"not packed at all", gzip.compress(b"x" * 100)[:-30] + b"??" * 20])
async def test_what_is_packed_badly_is_refused(body: bytes) -> None:
    """With a sentence, not a fault."""
    async with own_site([packed(body, b"gzip")]) as (egress, site):
        with pytest.raises(EgressFailed, match="unpacked"):
            await egress.ask(question(site.url))


async def test_half_of_something_packed_says_that_it_is_cut() -> None:
    """The connection ended early, and no length told of it."""
    body = gzip.compress(bytes(range(256)) * 50)
    async with own_site([HEAD + b"content-encoding: gzip\r\n\r\n" + body[: len(body) // 2], CLOSE]) as (egress, site):
        assert (await egress.ask(question(site.url))).is_cut


@pytest.mark.parametrize(
    "pieces",
    [
        [30.0],
        [b"HTTP/1.1 200", 30.0],
        [HEAD + b"content-length: 10\r\n\r\nab", 30.0],
        [*itertools.chain.from_iterable((b"HTTP/1.1 100 Continue\r\n\r\n", 0.05) for _ in range(300))],
        [HEAD + b"\r\n", *itertools.chain.from_iterable((b"x", 0.05) for _ in range(300))],
    ],
    ids=["silence", "half a head", "half a body", "interim for ever", "byte by byte"],
)
async def test_who_is_slow_is_left_in_time(pieces: Pieces) -> None:
    """The whole of it has one limit: a byte now and then buys nothing."""
    async with own_site(pieces) as (egress, site):
        started = time.monotonic()
        with pytest.raises(EgressFailed) as late:
            await egress.ask(question(site.url, within=timedelta(seconds=0.4)))
        assert late.value.is_late
        assert time.monotonic() - started < 3


async def test_a_look_up_that_hangs_ends_in_time() -> None:
    """And so does a chain of redirects that takes its time at each."""

    class Hanging:
        async def addresses(self, host: str) -> Sequence[str]:
            await asyncio.sleep(60)
            return [PUBLIC]

    async with open_egress(network=GuardedNetwork(resolver=Hanging())) as egress:
        with pytest.raises(EgressFailed, match=r"in time|within"):
            await egress.ask(question("http://a.example/", within=timedelta(seconds=0.3)))
    async with own_site([0.15, redirect("/again")]) as (egress, site):
        with pytest.raises(EgressFailed, match=r"within 0\.4 s"):
            await egress.ask(question(site.url, within=timedelta(seconds=0.4)))


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n" * 3,
        b"-ERR unknown command\r\n",
        HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        HEAD + b"".join(b"x-%d: %b\r\n" % (index, b"y" * 1000) for index in range(300)) + b"\r\n",
        HEAD + b"x" * 500_000,
        HEAD + b"content-length: 10\r\n\r\nabc",
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
    ids=["ssh", "redis", "two lengths", "many headers", "endless head", "short", "bad chunk", "nothing"],
)
async def test_an_answer_that_is_not_http_is_one_sentence(answer: bytes) -> None:
    """And nothing of it is in the sentence: it may be what an inner service says."""
    async with own_site([answer, CLOSE]) as (egress, site):
        with pytest.raises(EgressFailed) as failed:
            await egress.ask(question(site.url))
        assert "SSH" not in str(failed.value)
        assert "ERR" not in str(failed.value)


async def test_the_caller_says_which_types_it_takes() -> None:
    """The rest is not even read; a refusal's page may be of any type."""
    image = with_length(b"x" * 100, headers=b"content-type: Image/PNG; a=b\r\n")
    async with own_site([image]) as (egress, site):
        with pytest.raises(UnwantedContent) as unwanted:
            await egress.ask(question(site.url, takes=lambda told: told in {"text/html", "application/json"}))
        assert unwanted.value.content_type == "image/png"
        assert (await egress.ask(question(site.url, takes=lambda told: told == "image/png"))).status == 200
    async with own_site([with_length(b"x")]) as (egress, site):
        assert (await egress.ask(question(site.url, takes=lambda told: told == ""))).body == b"x"
        with pytest.raises(UnwantedContent, match="no told type"):
            await egress.ask(question(site.url, takes=lambda told: told.startswith("text/")))


async def test_chunks_and_errors_are_answers_too() -> None:
    """Whatever the status is."""
    answer = b"HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\nretry-after: 3\r\n\r\n" + chunked(b"a", b"b")
    async with own_site([answer]) as (egress, site):
        got: Answer = await egress.ask(question(site.url))
        assert (got.status, got.body, got.headers["retry-after"]) == (503, b"ab", "3")


async def test_cookies_are_not_kept() -> None:
    """What one run was given is not sent for another."""
    async with own_site([with_length(b"x", headers=b"set-cookie: a=b\r\n")]) as (egress, site):
        await egress.ask(question(site.url))
        await egress.ask(question(site.url))
        assert b"cookie" not in site.requests[1].lower()


def certificates(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server shows that is called ``name``, and who believes it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    return server, ssl.create_default_context(cafile=pem)


async def test_the_certificate_is_checked_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    """The connection is pinned, and still proves who answers; the name is told to the server."""
    server, client = certificates(tmp_path, "a.example")
    told: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: told.append(name)
    async with web([OK], server_tls=server, tls=client) as (egress, _, detour, _):
        assert (await egress.ask(question("https://a.example/"))).body == b"fine"
        assert detour.called == [(PUBLIC, 443)]
        with pytest.raises(EgressFailed, match="certificate"):
            await egress.ask(question("https://b.example/"))
        with pytest.raises(EgressFailed, match="certificate"):
            await egress.ask(question(f"https://{PUBLIC}/"))
    assert told[:2] == ["a.example", "b.example"]


async def test_a_host_that_nobody_knows_could_not_be_reached() -> None:
    """An error and no refusal; the machine's resolver is asked off the event loop."""
    async with open_egress() as egress:
        with pytest.raises(EgressFailed, match="reached"):
            await egress.ask(question("http://nobody.invalid/"))
    assert "127.0.0.1" in await SystemResolver().addresses("localhost")
    with pytest.raises(OSError, match=r"known|name|address|resolution"):
        await SystemResolver().addresses("nobody.invalid")
