"""A scripted model uses the tools of memory over the wire, in a real worker, for several people."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, LiteralString

import httpx2
import psycopg
import pytest

from tests.api_keys import bearer, make_key
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
    """The tools of memory, one of which is not enabled by default."""
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


def execute(database_url: str, *statements: LiteralString) -> None:
    """What the indexer and the consolidator do."""
    with psycopg.connect(database_url, autocommit=True) as database:
        for statement in statements:
            database.execute(statement)


async def use(
    http: httpx2.AsyncClient,
    tool: str,
    headers: Mapping[str, str] | None = None,
    sender: str = "anna",
    /,
    **arguments: Any,
) -> str:
    """What the model reads of the call that it was told to make."""
    message = f"[[script:do]] call:{json.dumps([tool, arguments])}"
    reply = await http.post("/api/v1/chat", json={"message": message, "sender": sender}, headers=headers)
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


async def test_episodes_commitments_and_files_over_the_wire(stack: Stack, http: httpx2.AsyncClient) -> None:
    """Each with what it says, and with its errors."""
    summary = "We planned the trip to Lisbon."
    said = await use(http, "record_episode", summary=summary, topics=["travel"], decisions=["leave on Friday"])
    assert said == "Recorded: episode #1"
    assert await use(http, "record_episode", summary="Hi.") == (
        "Error: this is trivial: a summary of less than 20 characters is not worth keeping"
    )
    execute(
        stack.database_url,
        "insert into commitments (person, who, what) values ('owner', 'I', 'book the hotel')",
        "select lucyd_put_file('MEMORY.md', 'x', 1, now(), '', '{1}', '{2}', '{x}',"
        " array['Lisbon' || chr(10) || 'hat'])",
    )
    found = await use(http, "memory_search", query="Lisbon?")
    headers = [line for line in found.splitlines() if line.startswith("[")]
    assert headers[:3] == ["[Open commitments]", "[Memory search]", "[Recent conversations]"]
    assert "#1 - I: book the hotel" in found
    assert await use(http, "memory_get", file_path="MEMORY.md") == "Lisbon\nhat\n[MEMORY.md, lines 1-2]"
    assert await use(http, "memory_get", file_path="other.md") == "No chunks found for other.md lines 0-50"
    assert await use(http, "memory_get", file_path="MEMORY.md", start_line=3, end_line=2) == (
        "Error: 'end_line' must be greater than 'start_line'"
    )
    done = {"commitment_id": 1, "status": "done"}
    assert await use(http, "commitment_update", **done) == "Commitment #1 marked as done"
    assert await use(http, "commitment_update", **done) == "No open commitment found with ID #1"
    assert await use(http, "commitment_update", commitment_id=1, status="open") == (
        "Error: Invalid arguments for 'commitment_update': 'status' must be one of done, expired, cancelled"
    )


async def test_one_person_never_reads_of_another_over_the_wire(stack: Stack, http: httpx2.AsyncClient) -> None:
    """Two senders of a named key are two people, and neither is the owner; files are for all of them."""
    secret = bearer(make_key(stack.database_url, "shop", "chat"))
    facts = {"entity": "diary", "attribute": "secret"}
    doors = [(None, "anna"), (secret, "anna"), (secret, "berta")]
    execute(
        stack.database_url,
        "select lucyd_put_file('MEMORY.md', 'x', 1, now(), 'test', '{1}', '{1}', '{x}', array['diary rules'])",
    )
    for number, (headers, sender) in enumerate(doors):
        said = await use(http, "memory_write", headers, sender, **facts, value=f"number {number}")
        assert said == f"Stored: diary.secret = number {number}"
        await use(http, "record_episode", headers, sender, summary=f"They wrote the diary, number {number}.")
    for number, (headers, sender) in enumerate(doors):
        found = await use(http, "memory_search", headers, sender, query="diary number")
        assert [f"number {other}" in found for other in range(3)] == [other == number for other in range(3)]
        assert "MEMORY.md:1-1" in found
    persons = rows(stack.database_url, "select id from persons order by id")
    assert persons == [("http:shop:anna",), ("http:shop:berta",), ("owner",)]


async def test_a_tool_that_is_not_enabled_changes_nothing(stack: Stack, http: httpx2.AsyncClient) -> None:
    """Also when the model knows its name."""
    said = await use(http, "write", file_path="MEMORY.md", content="x")
    assert said.startswith("Error: Unknown tool 'write'. Available tools: memory_search")
    assert not (stack.workspace / "MEMORY.md").exists()
