"""A model asks for pages through a real worker: what it may have, and nothing of what only its machine can reach."""

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.scripted_model_server import Say, Script, ScriptedModelServer, Use
from tests.ssrf_corpus import LITERALS
from tests.stack import Stack, client, model_toml, open_stack, text_of

KEY = "BSA-the-key-of-the-search"
NONE: Mapping[str, str] = {}
SECRET = "what only this machine can read"
CORPUS = [url for url in LITERALS if not any(0xD800 <= ord(each) < 0xE000 for each in url)]
REDIRECTS = [url for url in CORPUS if "://" in url and not any(ord(each) < 32 or ord(each) > 255 for each in url)]


class Site:
    """A site of the operator's, a search service, and a neighbour that nobody is to ask."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.over = threading.Event()
        self.url = ""


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        self.site.asked.append(self.path)
        match urlsplit(self.path).path:
            case "/page":
                self._answer(b"<title>News</title><p>All <a href='/more'>is well</a>.", "text/html")
            case "/away":
                self._answer(b"", "text/html", 302, {"location": REDIRECTS[int(urlsplit(self.path).query)]})
            case "/loop":
                self._answer(b"", "text/html", 302, {"location": "/loop"})
            case "/bomb":
                self._answer(gzip.compress(bytes(50_000_000)), "text/plain", 200, {"content-encoding": "gzip"})
            case "/endless":
                self._endless()
            case "/silent":
                self.site.over.wait(30)
            case "/image":
                self._answer(b"\x89PNG", "image/png")
            case "/search":
                self._search()
            case _:
                self._answer(SECRET.encode(), "text/plain", 404)

    def _search(self) -> None:
        query = parse_qs(urlsplit(self.path).query)["q"][0]
        if self.headers["X-Subscription-Token"] != KEY or query == "too often":
            self._answer(json.dumps({"error": KEY}).encode(), "application/json", 429, {"retry-after": "3"})
            return
        found = {
            "web": {"results": [{"title": f"On <b>{query}</b>", "url": "https://x.example/", "description": "Yes."}]}
        }
        self._answer(json.dumps(found).encode(), "application/json")

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()
        with contextlib.suppress(OSError):
            while not self.site.over.is_set():
                self.wfile.write(b"x" * 10_000)

    def _answer(self, body: bytes, content_type: str, status: int = 200, headers: Mapping[str, str] = NONE) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the screen."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextlib.contextmanager
def open_site() -> Iterator[Site]:
    site = Site()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        site.over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    with open_site() as opened:
        yield opened


@pytest.fixture
def neighbour() -> Iterator[Site]:
    """Nobody allows it."""
    with open_site() as opened:
        yield opened


@pytest.fixture
def models(site: Site, neighbour: Site) -> Iterator[ScriptedModelServer]:
    def fetch(*urls: str, **others: object) -> Use:
        return Use([("web_fetch", {"url": url, **others}) for url in urls])

    port = neighbour.url.rpartition(":")[2]
    near = [f"http://{host}:{port}/page" for host in ("127.0.0.1", "localhost", "127.1", "[::1]", "0x7f.1", "0")]
    scripts: dict[str, Script] = {
        "read": [fetch(f"{site.url}/page"), Say("Read.")],
        "corpus": [fetch(*CORPUS, *near), Say("Tried.")],
        "redirects": [fetch(*(f"{site.url}/away?{index}" for index in range(len(REDIRECTS)))), Say("Tried.")],
        "trouble": [
            fetch(f"{site.url}/loop", f"{site.url}/bomb", f"{site.url}/endless", f"{site.url}/silent",
                  f"{site.url}/image", f"{site.url}/gone", max_chars=1000),
            Say("Tried."),
        ],
        "search": [Use([("web_search", {"query": "cats"}), ("web_search", {"query": "too often"})]), Say("Found.")],
        "hidden": [Use([("web_search", {"query": "cats"})]), Say("Tried.")],
    }  # fmt: skip
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(
    models: ScriptedModelServer, site: Site, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    extra = f"""
[tools]
enabled = ["web_fetch", "web_search"]
[tools.web_fetch]
timeout = 3.0
allowed_hosts = ["{site.url}"]
[tools.web_search]
api_url = "{site.url}/search"
"""
    with open_stack(
        tmp_path, database_url, redis_url, model_toml("anthropic", models.base_url("anthropic"), extra=extra)
    ) as opened:
        opened.environment["LUCYD_BRAVE_KEY"] = KEY
        # A proxy would be a way round the guard.
        opened.environment["HTTP_PROXY"] = opened.environment["http_proxy"] = "http://127.0.0.1:9"
        opened.environment["NO_PROXY"] = opened.environment["no_proxy"] = "127.0.0.1"
        yield opened


def results_of(stack: Stack, script: str) -> list[str]:
    """What the model was given for its calls, in their order."""
    gateway = stack.processes[0] if stack.processes else stack.gateway()
    if len(stack.processes) == 1:
        stack.workers()
    with client(
        gateway,
    ) as http:
        reply = http.post("/api/v1/chat", json={"message": f"[[script:{script}]]", "sender": script}).json()
        events = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").json()["events"]
    return [event["content"] for event in events if event["type"] == "tool_result"]


def test_a_model_reads_what_it_may_and_nothing_else(stack: Stack, site: Site, neighbour: Site) -> None:
    """The whole corpus, directly and behind redirects; the neighbour on this machine hears of nobody."""
    page = f"Title: News\n\nAll [is well]({site.url}/more)."
    assert results_of(stack, "read") == [page]
    tried = results_of(stack, "corpus")
    assert len(tried) == len(CORPUS) + 6
    assert [text for text in tried if not text.startswith("Error: Blocked: ")] == []
    led = results_of(stack, "redirects")
    assert len(led) == len(REDIRECTS)
    assert [text for text in led if not text.startswith("Error: Blocked: ")] == []
    assert neighbour.asked == []
    assert not any(SECRET in text for text in (*tried, *led))


def test_a_site_that_makes_trouble_is_told_of_in_time(stack: Stack) -> None:
    """A loop, a bomb, a body without end, silence, an image, a page that is gone: each is one sentence."""
    started = time.monotonic()
    loop, bomb, endless, silent, image, gone = results_of(stack, "trouble")
    assert time.monotonic() - started < 40
    assert loop == "Error: Blocked: it redirects more than 5 times"
    assert bomb.endswith("[truncated: the page is longer than 4000 bytes]")
    assert endless.startswith("x" * 400)
    assert len(endless) < 1_100
    assert silent == "Error: Fetching failed: no answer within 3 s"
    assert image == "Error: the answer is image/png, which is not text; only text can be fetched"
    assert gone == "Error: Fetching failed: the server answered with HTTP 404"


def test_a_search_is_answered_and_its_key_is_nowhere(stack: Stack, models: ScriptedModelServer) -> None:
    """In no result, no log, and nothing that the model's provider was sent."""
    found, refused = results_of(stack, "search")
    assert found == "**On cats**\nhttps://x.example/\nYes."
    assert refused == ("Error: Search failed: the search service was asked too often (HTTP 429); try again in 3 s")
    for process in stack.processes:
        assert KEY not in text_of(process)
    assert KEY not in json.dumps(models.requests, default=str)


def test_without_a_key_a_search_is_an_error_and_a_tool_that_is_off_reaches_nothing(stack: Stack, site: Site) -> None:
    """Also when the model names it."""
    del stack.environment["LUCYD_BRAVE_KEY"]
    assert results_of(stack, "search")[0] == "Error: No search API key configured"
    toml = stack.config.read_text().replace('"web_fetch", "web_search"', '"web_fetch"')
    stack.processes.pop().stop()
    stack.config.write_text(toml)
    assert results_of(stack, "hidden")[0].startswith("Error: Unknown tool 'web_search'")
    assert site.asked == []


def test_a_host_that_can_t_be_is_one_sentence_at_the_start(stack: Stack) -> None:
    """Not a tool that is silently narrower."""
    toml = stack.config.read_text().replace("allowed_hosts = [", 'allowed_hosts = ["http://", ')
    stack.config.write_text(toml)
    process = stack.start("agent_worker")
    assert process.popen.wait(20) == 1
    assert "tools.web_fetch.allowed_hosts" in text_of(process)
    assert "Traceback" not in text_of(process)
