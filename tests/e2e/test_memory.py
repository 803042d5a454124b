"""A scripted model uses the tools of memory over the wire, in a real worker, for several people."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.proofs import rows
from tests.scripted_model_server import Asked, Say, ScriptedModelServer, Step, Use
from tests.stack import Process, Stack, async_client, model_toml, open_stack


def does_as_told(asked: Asked) -> Step:
    """The text says which call to make, as JSON behind `call:`; the answer is what came of it."""
    if asked.turn == 0:
        name, arguments = json.loads(asked.text.partition("call:")[2])
        return Use([(name, arguments)])
    return Say(f"RESULT {_last_result(asked.body)}")


def _last_result(body: Any) -> str:
    (block,) = body["messages"][-1]["content"]
    content = block["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Makes the calls that it is told to make."""
    with ScriptedModelServer({"do": does_as_told}).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """The tools of memory are enabled by default, but for one."""
    extra = (
        '[tools]\nenabled = ["memory_search", "memory_get", "memory_write", "memory_forget", "commitment_update", '
        '"record_episode"]\n'
    )
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=extra)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


@pytest.fixture
def worker(stack: Stack) -> Process:
    """One worker."""
    (process,) = stack.workers()
    return process


@pytest.fixture
async def http(stack: Stack, worker: Process) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway."""
    gateway = await asyncio.to_thread(stack.gateway)
    async with async_client(gateway) as opened:
        yield opened


async def use(http: httpx2.AsyncClient, tool: str, **arguments: Any) -> str:
    """What the model reads of the call that it was told to make."""
    message = f"[[script:do]] call:{json.dumps([tool, arguments])}"
    reply = await http.post("/api/v1/chat", json={"message": message, "sender": "anna"})
    assert reply.status_code == 200, reply.text
    said: str = reply.json()["reply"]
    return said.removeprefix("RESULT ")


async def test_facts_over_the_wire(stack: Stack, http: httpx2.AsyncClient) -> None:
    """Stored, known, updated, found, forgotten; and each is done once, with its result."""
    tea = {"entity": "Anna Smith", "attribute": "Tea"}
    assert await use(http, "memory_write", **tea, value="Assam") == "Stored: anna_smith.tea = Assam"
    assert await use(http, "memory_write", **tea, value="Assam") == "Already known: anna_smith.tea = Assam"
    assert await use(http, "memory_write", **tea, value="Oolong") == "Updated: anna_smith.tea = Oolong (was: Assam)"
    found = await use(http, "memory_search", query="What does Anna Smith drink?")
    assert found.startswith("[Known facts]\n  anna smith \u2014 tea: Oolong\n\n[Memory loaded: Known facts | ")
    assert await use(http, "memory_forget", **tea) == "Forgotten: anna_smith.tea"
    assert await use(http, "memory_forget", **tea) == "No current fact found for anna_smith.tea"
    assert (await use(http, "memory_search", query="Anna Smith")).startswith("No results found")
    assert await use(http, "memory_write", entity="", attribute="a", value="v") == "Error: 'entity' must not be empty"
    assert await use(http, "memory_search", query=" ") == "Error: 'query' must not be empty"
    assert (await use(http, "memory_write", entity="e")).startswith("Error: Invalid arguments for 'memory_write': ")
    effects = rows(stack.database_url, "select tool, class, state, count(*) from effects group by 1, 2, 3 order by 1")
    assert effects == [("memory_forget", "local", "done", 2), ("memory_write", "local", "done", 5)]
