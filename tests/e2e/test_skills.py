"""Skills in real workers: the prompt as the model server saw it, edits in use within 2 s, and tools that are cut."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.proofs import rows
from tests.scripted_model_server import Asked, Hang, Say, ScriptedModelServer, Step, Use
from tests.stack import Stack, async_client, model_toml, open_stack

IN_USE_WITHIN = 2.0
"""Seconds: the promise."""


def does_as_told(asked: Asked) -> Step:
    """Makes the calls that stand in the text as JSON behind `calls:`, one a turn."""
    calls = json.loads(asked.text.partition("calls:")[2])
    if asked.turn < len(calls):
        return Use([calls[asked.turn]])
    return Say("done")


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Makes the calls that it is told to make, or takes half a second, so that one worker can't answer all."""
    scripts: Any = {"do": does_as_told, "half": [Hang(0.5), Say("hi")]}
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Two workers with two slots each will use it."""
    extra = '[tools]\nenabled = ["read", "write", "load_skill", "session_status"]\n[worker]\nslots = 2\n'
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=extra)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway."""
    gateway = await asyncio.to_thread(stack.gateway)
    async with async_client(gateway) as opened:
        yield opened


def write(stack: Stack, name: str, body: str, front: str = "") -> Path:
    folder = stack.workspace / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: How to do the {name}\n{front}---\n{body}\n")
    return folder / "SKILL.md"


async def say(http: httpx2.AsyncClient, text: str, sender: str = "anna") -> None:
    reply = await http.post("/api/v1/chat", json={"message": text, "sender": sender})
    assert reply.status_code == 200, reply.text


def prompt(request: Any) -> str:
    return "\n".join(block["text"] for block in request["body"]["system"])


def offered(request: Any) -> list[str]:
    return [tool["name"] for tool in request["body"].get("tools", [])]


def results(request: Any) -> list[str]:
    """What tools have answered in this request's history."""
    blocks = [
        block for said in request["body"]["messages"] if isinstance(said["content"], list) for block in said["content"]
    ]
    return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]


async def test_of_fifty_skills_the_prompt_has_all_names_and_three_texts(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """What is sent is what is paid."""
    for number in range(50):
        write(stack, f"brew-{number:02}", f"How to brew {number}.")
    await asyncio.to_thread(stack.workers, 1)
    await say(http, "please brew [[script:half]]")
    (request,) = models.requests
    assert (
        sum(f"- **brew-{number:02}**: How to do the brew-{number:02}" in prompt(request) for number in range(50)) == 50
    )
    assert prompt(request).count("How to brew") == 3


async def test_an_edited_an_added_and_a_removed_skill_are_in_use_on_every_worker_within_two_seconds(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """Nobody restarts anything."""
    tea = write(stack, "brewing", "First boil.")
    await asyncio.to_thread(stack.workers, 2)

    async def on_both(holds: Callable[[str], bool]) -> None:
        """Eight messages at once: more than one worker has slots for, so both answer some of them."""
        models.reset()
        before = {call for (call,) in rows(stack.database_url, "select call_id from reservations")}
        await asyncio.gather(*(say(http, "brewing [[script:half]]", f"p{number}") for number in range(8)))
        assert [holds(prompt(request)) for request in models.requests] == [True] * 8
        asked = rows(stack.database_url, "select worker, call_id from reservations")
        assert len({worker for worker, call in asked if call not in before}) == 2

    await on_both(lambda text: "First boil." in text)
    await _after(lambda: tea.write_text(tea.read_text().replace("First", "Never")))
    await on_both(lambda text: "Never boil." in text and "First boil." not in text)
    await _after(lambda: write(stack, "more-brewing", "Then drink."))
    await on_both(lambda text: "Never boil." in text and "Then drink." in text)
    await _after(tea.unlink)
    await on_both(lambda text: "Never boil." not in text and "Then drink." in text)


async def _after(change: Callable[[], object]) -> None:
    """Change something, and let pass what it may take."""
    change()
    await asyncio.sleep(IN_USE_WITHIN)


async def test_a_restricted_skill_that_fits_cuts_the_tools_and_a_call_beside_them_fails(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """The recorded list is the union of those that fit; what the model names beside it reaches nothing."""
    write(stack, "brewing", "Boil.", "allowedTools: [read]\n")
    write(stack, "grinding", "Grind.", "allowed-tools: Read load_skill\n")
    await asyncio.to_thread(stack.workers, 1)
    call = ["write", {"file_path": str(stack.workspace / "made.txt"), "content": "x"}]
    await say(http, f"brewing and grinding [[script:do]] calls:{json.dumps([call])}")
    assert [offered(request) for request in models.requests] == [["read", "load_skill"]] * 2
    (result,) = results(models.requests[-1])
    assert "Error: Unknown tool 'write'. Available tools: " in result
    assert not (stack.workspace / "made.txt").exists()


async def test_a_skill_is_loaded_by_its_name_also_one_that_was_written_a_moment_ago(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """By the model, over the wire: a wrong name is answered with the right ones, and a cut holds from there on."""
    write(stack, "brewing", "Boil.")
    await asyncio.to_thread(stack.workers, 1)
    text = "---\nname: fresh\nallowedTools: [session_status]\n---\nJust learned."
    calls = [
        ["load_skill", {"name": "nothing"}],
        ["load_skill", {}],
        ["write", {"file_path": str(stack.workspace / "skills" / "fresh" / "SKILL.md"), "content": text}],
        ["load_skill", {"name": "fresh"}],
        ["session_status", {}],
        ["write", {"file_path": str(stack.workspace / "x"), "content": "x"}],
    ]
    await say(http, f"hello [[script:do]] calls:{json.dumps(calls)}")
    said = results(models.requests[-1])
    assert "Error: Skill 'nothing' not found. Available skills: brewing" in said[0]
    assert "Error: Invalid arguments for 'load_skill'" in said[1]
    assert '"Just learned."' in said[3]
    assert "Uptime" in said[4]
    assert "Error: Unknown tool 'write'" in said[5]
    assert offered(models.requests[0]) == ["read", "write", "session_status", "load_skill"]
    assert offered(models.requests[-1]) == ["session_status", "load_skill"]


async def test_a_broken_skill_is_named_in_the_log_and_the_others_work(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """Once for each change, and not at every look."""
    write(stack, "brewing", "Boil.")
    write(stack, "broken", "x").write_bytes(b"---\nname: broken\n")
    (worker,) = await asyncio.to_thread(stack.workers, 1)
    await asyncio.sleep(IN_USE_WITHIN)
    await say(http, "brewing [[script:half]]")
    assert "Boil." in prompt(models.requests[-1])
    told = [line for line in worker.log.read_text().splitlines() if "skill_skipped" in line]
    assert len(told) == 1
    assert "skills/broken/SKILL.md" in told[0]
    assert "no closing line" in told[0]
