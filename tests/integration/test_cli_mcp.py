"""`lucyd mcp`: servers are listed and checked by real connections, and Lucyd is one itself."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from tests.command_line import PROJECT, environment_of, lucyd
from tests.scripted_model_server import Fail, Say, Script, ScriptedModelServer
from tests.stack import TOKEN, Stack, model_toml, open_stack

PROGRAM = f'command = "{sys.executable}"\ncwd = "{PROJECT}"\n'
GOOD = f'[mcp.servers.good]\n{PROGRAM}args = ["-m", "tests.mcp_server"]\ntrust_annotations = true\ndeny = ["die"]\n'
BAD = f"""
[mcp.servers.ends]
{PROGRAM}
args = ["-m", "tests.raw_mcp_server", "ends"]
[mcp.servers.nobody]
url = "http://127.0.0.1:9/mcp"
[mcp.servers.keyless]
url = "http://127.0.0.1:9/mcp"
token_env = "NOT_SET"
[mcp.servers.idle]
command = "x"
enabled = false
"""


def mcp(home: Path, toml: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """`lucyd mcp` with that configuration."""
    (home / "lucyd.toml").write_text(toml, "utf-8")
    return lucyd(home, "mcp", *words)


def test_servers_and_their_tools_are_listed_by_the_names_that_the_agent_uses(tmp_path: Path) -> None:
    """These are the names for [tools] ask_first, and the effects that were decided."""
    done = mcp(tmp_path, GOOD + BAD, "list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert ["good__echo", "read", "Say it again."] in lines
    assert ["good__fail", "once", "Fail, and say why."] in lines
    assert ["idle", "off", "0"] in lines
    assert "the variable NOT_SET is not set" in done.stdout


def test_a_check_says_of_each_what_is_wrong(tmp_path: Path) -> None:
    """In words that somebody can act on, and for scripts by the exit code."""
    done = mcp(tmp_path, GOOD + BAD, "check")
    assert (done.returncode, done.stderr) == (1, "")
    for line in (
        "ok    good: connected (testing 1.2.3), tools: 9",
        "      die is left out: not allowed by the configuration",
        "fail  ends: the connection ended (its program ended with exit code 3; it said: no such database)",
        "fail  nobody: nobody answers at its url",
        "fail  keyless: the variable NOT_SET is not set",
        "off   idle: enabled = false",
    ):
        assert line in done.stdout.splitlines()


def test_one_server_is_checked_for_itself(tmp_path: Path) -> None:
    """Whoever mends one does not want to hear of the others."""
    done = mcp(tmp_path, GOOD + BAD, "check", "good")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "ok    good: connected (testing 1.2.3), tools: 9")
    unknown = mcp(tmp_path, GOOD + BAD, "check", "gud")
    assert unknown.returncode == 1
    assert "There is no MCP server 'gud' in lucyd.toml; there is: ends, good, idle, keyless, nobody." in unknown.stderr


def test_without_servers_there_is_nothing_wrong(tmp_path: Path) -> None:
    """Nor anything to list."""
    for words in (("list",), ("check",)):
        done = mcp(tmp_path, "", *words)
        assert (done.returncode, done.stdout) == (0, "No MCP server is configured; docs/mcp.md says how.\n")


def test_a_mistake_in_the_file_is_told_as_everywhere(tmp_path: Path) -> None:
    """Before anything is connected."""
    done = mcp(tmp_path, "[mcp.servers.x]\n", "check")
    assert done.returncode == 1
    assert "mcp.servers.x needs either a command" in done.stderr


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """A Lucyd whose model says what it is told to."""
    scripts: dict[str, Script] = {
        "bad": [Fail(400, message="this model does not like you")],
        "hi": [Say("Hello, agent.")],
    }
    with ScriptedModelServer(scripts).in_thread() as models:
        toml = model_toml("anthropic", models.base_url("anthropic"))
        with open_stack(tmp_path, database_url, redis_url, toml) as opened:
            yield opened


async def test_another_agent_talks_with_this_one(stack: Stack, tmp_path: Path) -> None:
    """By the SDK's own client: a tool with a schema; each sender has a conversation, and errors are errors."""
    gateway, _ = stack.gateway(), stack.workers()
    words = ["-m", "cli", "mcp", "serve", "--url", gateway.url]
    program = StdioServerParameters(
        command=sys.executable, args=words, env=environment_of(tmp_path, LUCYD_HTTP_TOKEN=TOKEN), cwd=tmp_path
    )
    async with Client(program) as client:
        await _talk(client)
        await _look_up(client, stack.database_url)


async def _talk(client: Client) -> None:
    tools = {tool.name: tool.input_schema["required"] for tool in (await client.list_tools()).tools}
    assert tools == {"chat": ["message"], "memory_search": ["query"]}
    answer = await client.call_tool("chat", {"message": "[[script:hi]]"})
    assert not answer.is_error
    assert answer.content == [TextContent(text="Hello, agent.")]
    session = answer.structured_content["session_id"]
    again = await client.call_tool("chat", {"message": "what did I say?"})
    other = await client.call_tool("chat", {"message": "who am I?", "sender": "somebody else"})
    assert again.structured_content["session_id"] == session != other.structured_content["session_id"]
    bad = await client.call_tool("chat", {"message": "[[script:bad]]", "sender": "third"})
    assert bad.is_error
    assert "does not like you" in str(bad.content)
    empty = await client.call_tool("chat", {"message": ""})
    assert empty.is_error


async def _look_up(client: Client, database_url: str) -> None:
    """The other tool, beside the first: what is remembered, without a model."""
    nothing = await client.call_tool("memory_search", {"query": "tea"})
    assert (nothing.is_error, nothing.content) == (False, [TextContent(text="Nothing was found. Try other words.")])
    with psycopg.connect(database_url, autocommit=True) as database:
        database.execute("insert into persons (id) values ('owner'), ('http:shop:berta') on conflict do nothing")
        database.execute(
            "insert into facts (person, entity, attribute, value, confidence)"
            " values ('owner', 'anna', 'favourite_tea', 'Assam', 0.5),"
            " ('http:shop:berta', 'anna', 'favourite_tea', 'Oolong', 1)"
        )
    found = await client.call_tool("memory_search", {"query": "Which tea does Anna drink?", "limit": 5})
    assert found.content == [TextContent(text="[Known facts]\nanna \u2014 favourite tea: Assam")]
    assert found.structured_content["facts"] == [
        {"entity": "anna", "attribute": "favourite_tea", "value": "Assam", "confidence": 0.5}
    ]
    assert found.structured_content["passages"] == []
    for wrong in ({"query": ""}, {"query": "tea", "limit": 0}, {"query": "x" * 2001}, {"query": " "}, {}):
        refused = await client.call_tool("memory_search", wrong)
        assert refused.is_error, wrong
