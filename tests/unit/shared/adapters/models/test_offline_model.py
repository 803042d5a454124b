"""The stand-in of a fresh install really uses its tools and remembers the conversation."""

import subprocess
import sys
from collections.abc import Sequence
from uuid import UUID

import pytest

from shared.adapters.models.memory_note import split_fact
from shared.adapters.models.open_model import open_models
from shared.domain.chat import Message
from shared.domain.effect import ToolSpec
from shared.domain.provider import ModelSpec
from shared.ports.model import ModelAnswer, ModelRequest

FILES = ("exec", "read", "write", "edit")
NUMBERED = "     1\t# Memory\n     2\t\n     3\t- my cat is Tom\n     4\t- tea"


async def ask(messages: Sequence[Message], offered: Sequence[str] = FILES, role: str = "primary") -> ModelAnswer:
    pieces: list[str] = []
    async with open_models({role: ModelSpec(role, "offline", "offline")}) as models:
        request = ModelRequest(UUID(int=1), [], messages, [ToolSpec(name, "", {}) for name in offered])
        answer = await models[role].answer(request, lambda _, piece: pieces.append(piece))
    assert "".join(pieces) == answer.text
    return answer


async def talk(said: str, results: Sequence[str], offered: Sequence[str] = FILES) -> tuple[ModelAnswer, list[Message]]:
    """Let it call tools, answering each turn with the next result, until it speaks."""
    messages: list[Message] = [{"role": "user", "content": said}]
    coming = iter(results)
    while (answer := await ask(messages, offered)).stop_reason == "tool_use":
        messages.append({"role": "assistant", "text": answer.text, "tool_calls": list(answer.tool_calls)})
        messages.append(
            {
                "role": "tool_results",
                "results": [{"tool_use_id": call["id"], "content": next(coming)} for call in answer.tool_calls],
            }
        )
    return answer, messages


def calls_in(messages: Sequence[Message]) -> list[tuple[str, object]]:
    return [
        (call["name"], call["arguments"])
        for message in messages
        if message["role"] == "assistant"
        for call in message.get("tool_calls", [])
    ]


async def test_commands_and_files_are_asked_for_at_once_and_told_of() -> None:
    said = "[Thu, 21. May 2026 - 21:33 UTC]\nPlease run `date` and read NOTE.md."
    answer, messages = await talk(said, ["Thursday", "Error: not found"])
    assert calls_in(messages) == [("exec", {"command": "date"}), ("read", {"file_path": "NOTE.md"})]
    assert "Thursday" in answer.text
    assert "`NOTE.md` did not work:\nError: not found" in answer.text


async def test_a_fact_goes_to_the_memory_tool_where_there_is_one() -> None:
    answer, messages = await talk("Remember that my cat is Tom.", ["Stored."], ["memory_write", "read"])
    assert calls_in(messages) == [("memory_write", {"entity": "user", "attribute": "cat", "value": "Tom"})]
    assert "Stored." in answer.text


@pytest.mark.parametrize(
    ("shown", "then"),
    [
        ("Error: file not found", ("write", {"file_path": "MEMORY.md", "content": "# Memory\n\n- I like jazz\n"})),
        (NUMBERED, ("edit", {"file_path": "MEMORY.md", "old_string": "- tea", "new_string": "- tea\n- I like jazz"})),
        (
            "     1\t- tea\n     2\t- tea",
            (
                "edit",
                {"file_path": "MEMORY.md", "old_string": "- tea\n- tea", "new_string": "- tea\n- tea\n- I like jazz"},
            ),
        ),
    ],
)
async def test_a_fact_goes_to_the_notes_and_nothing_there_is_lost(shown: str, then: tuple[str, object]) -> None:
    answer, messages = await talk("remember that I like jazz", [shown, "ok"])
    assert calls_in(messages) == [("read", {"file_path": "MEMORY.md"}), then]
    assert "I will remember" in answer.text


async def test_a_note_that_cannot_be_written_is_admitted() -> None:
    answer, _ = await talk("remember that I like jazz", ["Error: Permission denied"])
    assert "could not" in answer.text
    assert "Permission denied" in answer.text


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ("What do you know about me?", ["- my cat is Tom", "- tea"]),
        ("what do you know about my cat", ["- my cat is Tom"]),
        ("what do you know about quarks?", ["I know nothing about quarks yet."]),
    ],
)
async def test_what_it_knows_is_looked_up_in_the_notes(said: str, lines: list[str]) -> None:
    answer, _ = await talk(said, [NUMBERED])
    assert [line for line in answer.text.splitlines() if not line.startswith("About")] == lines


async def test_what_it_knows_is_searched_where_there_is_a_memory() -> None:
    answer, messages = await talk("what do you know about Tom?", ["Tom: a cat"], ["memory_search"])
    assert calls_in(messages) == [("memory_search", {"query": "Tom"})]
    assert "Tom: a cat" in answer.text


@pytest.mark.parametrize(
    ("said", "quoted"),
    [("What did I say?", "blue"), ("what was my last message?", "blue"), ("what was my first message", "red")],
)
async def test_it_remembers_the_conversation(said: str, quoted: str) -> None:
    messages: list[Message] = [
        {"role": "user", "content": "red"},
        {"role": "assistant", "text": "ok"},
        {"role": "user", "content": "[Thu, 21. May 2026 - 21:33 UTC]\nblue"},
        {"role": "assistant", "text": "ok"},
        {"role": "user", "content": said},
    ]
    assert (await ask(messages)).text == f"You said: {quoted}"


async def test_anything_else_is_acknowledged_and_the_way_out_is_told() -> None:
    """Nobody should take the stand-in for a model that is merely stupid."""
    text = (await ask([{"role": "user", "content": "Do you remember that summer? I read a book."}])).text
    for part in ("Do you remember that summer?", "No model is configured", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        assert part in text
    assert "[providers]" in text
    assert "lucyd.toml" in text


async def test_a_tool_that_is_not_offered_is_missed_in_words() -> None:
    assert "exec" in (await ask([{"role": "user", "content": "run `ls`"}], ["read"])).text


async def test_ids_differ_from_turn_to_turn_and_are_the_same_when_asked_again() -> None:
    messages: list[Message] = [{"role": "user", "content": "run `ls` and run `pwd`"}]
    first, again = await ask(messages), await ask(messages)
    later = await ask([*messages, {"role": "assistant", "text": "x"}, {"role": "user", "content": "run `ls`"}])
    assert first == again
    ids = [call["id"] for answer in (first, later) for call in answer.tool_calls]
    assert len(set(ids)) == 3


async def test_a_summary_invents_nothing() -> None:
    text = (await ask([{"role": "user", "content": "run `x`\nmy cat is Tom"}], role="compaction")).text
    assert "my cat is Tom" in text


@pytest.mark.parametrize(
    ("fact", "parts"),
    [
        ("my favourite colour is green", ("user", "favourite colour", "green")),
        ("Anna's birthday is in May", ("Anna", "birthday", "in May")),
        ("the capital of France is Paris", ("France", "capital", "Paris")),
        ("I like tea", ("user", "note: I like tea", "I like tea")),
    ],
)
def test_facts_are_taken_apart_simply(fact: str, parts: tuple[str, str, str]) -> None:
    assert split_fact(fact) == parts


def test_nobody_pays_for_an_sdk_that_is_not_used() -> None:
    """Each of them costs about a second at the start of every process."""
    program = (
        "import sys, shared.adapters.models.open_model; sys.exit('anthropic' in sys.modules or 'openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
