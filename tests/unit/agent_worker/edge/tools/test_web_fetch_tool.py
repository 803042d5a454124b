"""The agent reads a page. Client and server are real ones; the server is one that its operator allows."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from services.agent_worker.edge.tools.web_fetch import WebFetchTool
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.adapters.http.egress import open_egress
from shared.domain.destination import Origin
from tests.raw_provider import CLOSE, Pieces, RawProvider, raw_provider, with_length

TLS = ssl.create_default_context()


@contextlib.asynccontextmanager
async def fetching(
    *answers: Pieces, choose: Callable[[bytes], Pieces] | None = None, timeout: float = 5
) -> AsyncIterator[tuple[WebFetchTool, RawProvider]]:
    async with (
        raw_provider(*answers, choose=choose) as site,
        open_egress([Origin("127.0.0.1", site.port)], tls=TLS) as egress,
    ):
        yield WebFetchTool(egress, timeout=timedelta(seconds=timeout)), site


def page(body: bytes, content_type: bytes = b"text/html", status: bytes = b"200 OK") -> list[bytes | float]:
    told = b"content-type: %b\r\n" % content_type if content_type else b""
    return [with_length(body, status=status, headers=told)]


async def test_a_page_is_read_as_text(use: ToolUse) -> None:
    """With its title, and links written out from where it was found after redirects."""
    moved = with_length(b"", status=b"301 Moved", headers=b"location: /there/\r\n")
    html = "<title>Käse</title><p>See <a href=more>more</a><pre>a  b</pre>".encode()
    async with fetching([moved], page(html)) as (tool, site):
        text = await tool.run({"url": f"{site.url}/here"}, use)
    assert text == f"Title: Käse\n\nSee [more]({site.url}/there/more)\n\n```\na  b\n```"


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        (b"application/json; charset=utf-8", '{"ö": [1, 2]}'.encode(), '{"ö": [1, 2]}'),
        (b"text/plain", b"<b>as it is</b>\0", "<b>as it is</b>"),
        (b"application/ld+json", b"{}", "{}"),
        (b"TEXT/Markdown; charset=iso-8859-1", b"gr\xfcn", "grün"),
        (b"", b"  <html><p>told by its look</html>", "told by its look"),
        (b"", b"no HTML", "no HTML"),
        (b"text/html", b"<p> </p>", "(the page has no text)"),
    ],
)
async def test_other_text_is_given_as_it_is(content_type: bytes, body: bytes, text: str, use: ToolUse) -> None:
    """JSON stays JSON."""
    async with fetching(page(body, content_type)) as (tool, site):
        assert await tool.run({"url": site.url}, use) == text


@pytest.mark.parametrize("content_type", [b"image/png", b"application/pdf", b"application/octet-stream", b"video/mp4"])
async def test_what_is_no_text_is_refused_with_a_sentence(content_type: bytes, use: ToolUse) -> None:
    """Bytes are nothing that a model reads."""
    async with fetching(page(b"\x89PNG", content_type)) as (tool, site):
        with pytest.raises(ToolFailed, match=rf"the answer is {content_type.decode()}, which is not text"):
            await tool.run({"url": site.url}, use)


async def test_what_tells_no_type_and_is_no_text_is_refused(use: ToolUse) -> None:
    """Some servers say nothing."""
    async with fetching(page(b"\x7fELF\0\0\0", b"")) as (tool, site):
        with pytest.raises(ToolFailed, match="looks like no text"):
            await tool.run({"url": site.url}, use)


async def test_a_long_page_is_read_up_to_four_times_what_is_wanted(use: ToolUse) -> None:
    """And the result says that it was cut."""
    async with fetching(page(b"x" * 100_000, b"text/plain")) as (tool, site):
        assert await tool.run({"url": site.url, "max_chars": 100}, use) == "x" * 100 + "\n[truncated at 100 chars]"
    script = b"<script>" + b"y" * 390 + b"</script><p>end</p>" + b"z" * 1_000
    async with fetching(page(script)) as (tool, site):
        cut = await tool.run({"url": site.url, "max_chars": 100}, use)
        assert cut.endswith("\n[truncated: the page is longer than 400 bytes]")
    async with fetching(page(b"abc", b"text/plain")) as (tool, site):
        assert await tool.run({"url": site.url, "max_chars": -5}, use) == "a\n[truncated at 1 chars]"
        assert await tool.run({"url": site.url, "max_chars": 10**12}, use) == "abc"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (page(b"secret words", status=b"404 Not Found"), "the server answered with HTTP 404"),
        (page(b"secret words", status=b"500 Oh"), "the server answered with HTTP 500"),
        (page(b"", status=b"304 Not Modified"), "the server answered with HTTP 304"),
        ([b"secret words\r\n\r\n", CLOSE], "the connection broke, or the answer is not HTTP"),
        ([30.0], "no answer within 0.5 s"),
    ],
)
async def test_what_goes_wrong_is_told_and_nothing_of_the_answer(
    answer: list[bytes | float], sentence: str, use: ToolUse
) -> None:
    """An inner service that is no web server must not speak through an error."""
    async with fetching(answer, timeout=0.5) as (tool, site):
        with pytest.raises(ToolFailed) as failed:
            await tool.run({"url": site.url}, use)
    assert str(failed.value) == f"Fetching failed: {sentence}"


async def test_what_may_not_be_asked_is_blocked_with_the_reason(use: ToolUse) -> None:
    """The model reads why, and goes on."""
    async with fetching(page(b"x")) as (tool, site):
        with pytest.raises(ToolFailed, match="Blocked: the host is not on the public internet"):
            await tool.run({"url": "http://10.0.0.1/"}, use)
        with pytest.raises(ToolFailed, match="Blocked: only http and https"):
            await tool.run({"url": "file:///etc/passwd"}, use)
        assert site.requests == []
