"""The reference servers of the Model Context Protocol, used by a scripted model through a real worker."""

import contextlib
import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.reference_servers import NotInstalled, node_programs, python_programs
from tests.scripted_model_server import Say, Script, ScriptedModelServer, Use
from tests.stack import Process, Stack, client, free_port, model_toml, open_stack, text_of, wait_until

SECRET = "canary-of-the-worker"
PAGE = b"<html><head><title>Tom</title></head><body><h1>The cat</h1><p>is called Tom.</p></body></html>"

pytestmark = pytest.mark.timeout(600)  # they are installed first, where they are not


@dataclass(frozen=True)
class Programs:
    """Where they are."""

    python: Path
    node: Path


@pytest.fixture(scope="module")
def programs() -> Programs:
    """Installed, or the reason why not."""
    try:
        return Programs(python_programs(), node_programs())
    except NotInstalled as why:
        pytest.skip(f"the reference servers are not here: {why}")


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/cat"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE if found else b"")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a page."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/cat"
    server.shutdown()
    server.server_close()


@pytest.fixture
def over_http(programs: Programs) -> Iterator[str]:
    """The server "everything", over streamable HTTP."""
    port = free_port()
    process = subprocess.Popen(
        [programs.node / "mcp-server-everything", "streamableHttp"],
        env={"PATH": os.environ["PATH"], "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield f"http://127.0.0.1:{port}/mcp"
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    process.wait(10)


@pytest.fixture
def models(page: str, tmp_path: Path) -> Iterator[ScriptedModelServer]:
    """A model that tries them all in one answer."""
    note = str(tmp_path / "notes" / "note.txt")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("time__get_current_time", {"timezone": "Europe/Vienna"}),
        ("time__convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
        ("time__get_current_time", {"timezone": "Middle/Earth"}),
        ("fetch__fetch", {"url": page}),
        ("files__write_file", {"path": note, "content": "the cat is called Tom"}),
        ("files__read_text_file", {"path": "/etc/passwd"}),
        ("every__echo", {"message": "over a pipe"}),
        ("web__echo", {"message": "over HTTP"}),
        ("web__get-sum", {"a": 2, "b": "3"}),
        ("every__get-tiny-image", {}),
        ("every__get-structured-content", {"location": "Chicago"}),
        ("every__get-env", {}),
    ]
    scripts: dict[str, Script] = {
        "all": [Use(calls), Use([("files__read_text_file", {"path": note})]), Say("All of them work.")]
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def sections(programs: Programs, over_http: str, tmp_path: Path) -> str:
    """All of them, as somebody would write them into lucyd.toml."""
    (tmp_path / "notes").mkdir()
    return f"""
[mcp.servers.time]
command = "{programs.python}/mcp-server-time"
args = ["--local-timezone", "UTC"]
effect = "read"
[mcp.servers.fetch]
command = "{programs.python}/mcp-server-fetch"
args = ["--ignore-robots-txt", "--allow-private-ips"]
[mcp.servers.files]
command = "{programs.node}/mcp-server-filesystem"
args = ["{tmp_path}/notes"]
effects = {{ read_text_file = "read" }}
[mcp.servers.every]
command = "{programs.node}/mcp-server-everything"
[mcp.servers.web]
url = "{over_http}"
"""


@pytest.fixture
def stack(
    sections: str, models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    """Nothing runs yet but the server over HTTP."""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=sections)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        opened.environment["LUCYD_CANARY_SECRET"] = SECRET
        yield opened


def _is_up(worker: Process, name: str) -> bool:
    return any("mcp_server_up" in line and f'"server": "{name}"' in line for line in text_of(worker).splitlines())


def test_the_reference_servers_list_and_run_their_tools_inside_a_run(stack: Stack, models: ScriptedModelServer) -> None:
    """What works with these works with most."""
    gateway, (worker,) = stack.gateway(), stack.workers()
    for name in ("time", "fetch", "files", "every", "web"):
        wait_until(lambda name=name: _is_up(worker, name), f"{name} is connected; its log: {worker.log}")
    with client(gateway) as http:
        reply = http.post("/api/v1/chat", json={"message": "[[script:all]]"}).json()
        history = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").json()["events"]
    assert reply["reply"] == "All of them work."
    results = [event["content"] for event in history if event["type"] == "tool_result"]
    now, noon, nowhere, page, wrote, forbidden, piped, heard, added, image, weather, variables, read = results
    assert '"timezone": "Europe/Vienna"' in now
    assert "21:00" in noon
    assert nowhere.startswith("Error: ")
    assert "is called Tom" in page
    assert "Successfully wrote" in wrote
    assert forbidden.startswith("Error: ")
    assert "outside allowed directories" in forbidden
    assert "over a pipe" in piped
    assert "over HTTP" in heard
    assert "5" in added
    assert "[image of type image/png, " in image
    assert '"media_type": "image/png"' in json.dumps(models.requests[1]["body"]["messages"]), "the model has it, too"
    assert '"temperature"' in weather
    assert '"PATH"' in variables
    assert SECRET not in str(results)
    assert stack.database_url not in variables
    assert read == "the cat is called Tom"
