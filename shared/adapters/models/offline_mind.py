"""What the offline provider says: plain patterns instead of a model. Pure and deterministic.

It exists so that a fresh install answers, uses its tools and remembers, without a key and without cost. It looks at
the conversation alone: what the person wrote last, which calls were made since, and what came of them.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shared.adapters.models.memory_note import NOTES, notes_about, split_fact, write_note
from shared.domain.chat import Message, ToolCall, ToolResult, UserMessage

Wish = tuple[str, dict[str, Any]]
"""A call that shall be made: tool and arguments."""


@dataclass(frozen=True, slots=True)
class Thought:
    """What to answer: text, or calls to make first."""

    text: str = ""
    wishes: Sequence[Wish] = ()


_LONGEST_ECHO = 200
_LONGEST_SUMMARY = 4000

_RUN = re.compile(r"\b(?:run|execute)\s+`([^`\n]+)`", re.IGNORECASE)
_READ = re.compile(
    r"(?:^|\b(?:and|then|please|you)\s+|[.;:,]\s*)read\s+(?:the\s+file\s+)?(?:`([^`\n]+)`|([^\s`]*[./][^\s`]*))",
    re.IGNORECASE | re.MULTILINE,
)
_REMEMBER = re.compile(
    r"^(?:please\s+|and\s+)?(?:remember|note)\s+(?:that\s+|this:?\s+)(.+)$", re.IGNORECASE | re.MULTILINE
)
_KNOW = re.compile(
    r"\bwhat\s+(?:do\s+you|else\s+do\s+you|did\s+you)\s+(?:know|remember)\s+(?:about|of)\s+(.+?)\s*[?.!]*\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_SAID = re.compile(
    r"\bwhat\s+(?:did\s+i\s+(?:just\s+)?(?:say|write|ask|tell)|was\s+(?:it\s+that\s+i\s+said|my\s+(?:(?P<first>first)|"
    r"last|previous)\s+(?:message|question)))",
    re.IGNORECASE,
)
_FRAME_LINE = re.compile(r"\[[^\]\n]*\]\s*")
"""Lines such as the time of a message or a system warning, which stand before what a person wrote."""

_INTRODUCTION = """\
No model is configured, so I can't think about it. I am the offline stand-in, and this is what I can do:
- run `date` - run a command
- read MEMORY.md - read a file
- remember that my favourite colour is green
- what do you know about me?
- what did I say?
To give me a mind, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or configure a model under [providers] in lucyd.toml, and \
start again."""


def think(messages: Sequence[Message], offered: Collection[str], *, role: str = "primary") -> Thought:
    """The next answer. ``offered`` names the tools; ``role`` is the model's: summaries and extractions are no chats."""
    said = _last_said(messages)
    if role == "compaction":
        return Thought(_summary(said))
    if role == "consolidation":
        return Thought("{}")
    done = list(_done(messages))
    if fact := _REMEMBER.search(said):
        return _remember(fact[1].strip().rstrip(".!"), done, offered)
    if topic := _KNOW.search(said):
        return _know(topic[1], done, offered, messages)
    if done:
        return Thought("\n\n".join(_report(call, result) for call, result in done))
    if wishes := list(_wishes(said)):
        missing = sorted({tool for tool, _ in wishes} - set(offered))
        if missing:
            return Thought(f"I would need the tool {' and '.join(missing)} for that, and it is not enabled here.")
        return Thought(wishes=wishes)
    if asked := _SAID.search(said):
        return Thought(_said_before(messages, first=asked["first"] is not None))
    return Thought(_introduction(said, _count_of_messages(messages)))


def person_said(message: UserMessage) -> str:
    """What the person wrote, without the lines that were put before it."""
    content = message["content"]
    text = content if isinstance(content, str) else "\n".join(b["text"] for b in content if b["type"] == "text")
    lines = text.strip().splitlines()
    while len(lines) > 1 and (not lines[0].strip() or _FRAME_LINE.fullmatch(lines[0])):
        lines.pop(0)
    return "\n".join(lines).strip()


def _last_said(messages: Sequence[Message]) -> str:
    return next((person_said(message) for message in reversed(messages) if message["role"] == "user"), "")


def _done(messages: Sequence[Message]) -> Iterator[tuple[ToolCall, ToolResult]]:
    """Calls made since the person wrote, with their results."""
    last_said = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=-1)
    calls: dict[str, ToolCall] = {}
    for message in messages[last_said + 1 :]:
        if message["role"] == "assistant":
            calls |= {call["id"]: call for call in message.get("tool_calls", [])}
        elif message["role"] == "tool_results":
            for result in message["results"]:
                if result["tool_use_id"] in calls:
                    yield calls[result["tool_use_id"]], result


def _wishes(said: str) -> Iterator[Wish]:
    for command in _RUN.findall(said):
        yield "exec", {"command": command}
    for quoted, bare in _READ.findall(_RUN.sub("", said)):
        yield "read", {"file_path": quoted or bare.rstrip(".,;:!?\"')")}


def failed(result: ToolResult) -> bool:
    """Whether a result tells of a failure."""
    return result.get("is_error", False) or result["content"].startswith("Error")


def _report(call: ToolCall, result: ToolResult) -> str:
    what = {"exec": "command", "read": "file_path"}.get(call["name"], "")
    subject = f"`{call['arguments'][what]}`" if what in call["arguments"] else f"The tool {call['name']}"
    if failed(result):
        return f"{subject} did not work:\n{result['content']}"
    return f"{subject} gave:\n{result['content']}" if result["content"] else f"{subject} gave nothing."


def _remember(fact: str, done: Sequence[tuple[ToolCall, ToolResult]], offered: Collection[str]) -> Thought:
    if done and (done[-1][0]["name"] != "read" or len(done) > 1):
        result = done[-1][1]
        if failed(result):
            return Thought(f"I could not write that down:\n{result['content']}")
        return Thought(f"I will remember that {fact}. ({result['content']})")
    if "memory_write" in offered:
        entity, attribute, value = split_fact(fact)
        return Thought(wishes=[("memory_write", {"entity": entity, "attribute": attribute, "value": value})])
    if "read" not in offered or not {"write", "edit"} & set(offered):
        return Thought("I have no tool to write that down with; I know it only as long as this conversation lasts.")
    if not done:
        return Thought(wishes=[("read", {"file_path": NOTES})])
    result = done[0][1]
    wish = write_note(fact, result["content"], failed=failed(result), offered=offered)
    return Thought(wishes=[wish]) if wish else Thought(f"I could not add to {NOTES}:\n{result['content']}")


def _know(
    topic: str, done: Sequence[tuple[ToolCall, ToolResult]], offered: Collection[str], messages: Sequence[Message]
) -> Thought:
    about = "you" if topic.lower() in ("me", "myself") else topic
    if done:
        call, result = done[-1]
        if call["name"] == "read":
            notes = notes_about(topic, "" if failed(result) else result["content"])
            return _found(about, notes)
        return Thought(result["content"] if failed(result) else f"About {about} I have this:\n{result['content']}")
    if "memory_search" in offered:
        return Thought(wishes=[("memory_search", {"query": "user" if about == "you" else topic})])
    if "read" in offered:
        return Thought(wishes=[("read", {"file_path": NOTES})])
    heard = [person_said(message) for message in messages[:-1] if message["role"] == "user"]
    return _found(about, notes_about(topic, "\n".join(heard)))


def _found(about: str, notes: Sequence[str]) -> Thought:
    if not notes:
        return Thought(f"I know nothing about {about} yet.")
    return Thought("\n".join([f"About {about} I have this:", *notes]))


def _said_before(messages: Sequence[Message], *, first: bool) -> str:
    before = [person_said(message) for message in messages if message["role"] == "user"][:-1]
    if not before:
        return "You have said nothing before this message."
    return f"You said: {_short(before[0] if first else before[-1])}"


def _count_of_messages(messages: Sequence[Message]) -> int:
    return sum(message["role"] == "user" for message in messages)


def _introduction(said: str, count: int) -> str:
    received = f"I received your message: “{_short(said)}”" if said else "I received your message"
    nth = f" (number {count} in this conversation)" if count > 1 else ""
    return f"{received}{nth}. {_INTRODUCTION}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_ECHO else words[: _LONGEST_ECHO - 1] + "…"


def _summary(said: str) -> str:
    """No summary, but the beginning of every line: nothing is invented."""
    lines = (_short(line) for line in said.splitlines() if line.strip())
    return ("Kept without a model, shortened:\n" + "\n".join(lines))[:_LONGEST_SUMMARY]
