"""What the model answers to each kind of ask, and what it bills for it."""

import re
from pathlib import Path
from typing import Any

from tests.scripted_model_server import Asked, BreakMidStream, Fail, Hang, Say, Step, Tokens, Use

_NAMED = re.compile(r"#(\w+) (\w+)")
TALK = "A talk of several words goes on and on, "


def text_of_ask(key: str, kind: str) -> str:
    """The message that asks for an answer of this kind."""
    return f"#{key} {kind}, please."


def key_of(text: str) -> str:
    """The key in a message; empty where there is none."""
    found = _NAMED.search(text)
    return found[1] if found else ""


class Scripts:
    """The default script of the model server. ``billed`` holds the tokens of each call that got a whole answer."""

    def __init__(self, acts: Path, door: Path) -> None:
        self._door = door
        self.billed: dict[str, tuple[int, int, int, int]] = {}
        self.spoiled: set[str] = set()
        self._acts = acts
        self._held: set[str] = set()

    def __call__(self, asked: Asked) -> Step:
        """Choose a step."""
        found = _NAMED.search(asked.text)
        if found is None:
            return Say("I don't know what you mean.")
        key, kind = found[1], found[2]
        if kind in {"slow", "muse"} and asked.call_id not in self._held:
            self._held.add(asked.call_id)
            return Hang(2.0 if kind == "slow" else 0.4)
        if kind == "retry" and asked.attempt == 0:
            self.spoiled.add(asked.call_id)
            return Fail(529, retry_after=0.1)
        if kind == "retry" and asked.attempt == 1:
            self.spoiled.add(asked.call_id)
            return BreakMidStream(20)
        tokens = Tokens(50 + len(asked.body["messages"]), 10 + int(key) % 7, int(key) % 50, int(key) % 5)
        self.billed[asked.call_id] = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
        calls = self._calls(key, kind)
        if asked.turn < len(calls):
            return Use(calls[asked.turn], text="Let me see.", tokens=tokens)
        return Say(f"Answer {key}. " + TALK * (10 if kind == "talk" else 1), tokens=tokens)

    def _calls(self, key: str, kind: str) -> list[list[tuple[str, dict[str, Any]]]]:
        """The tool calls of each turn before the answer: every class of effects is among them."""
        match kind:
            case "act":
                exec_ = ("exec", {"command": self._act(key, 1.0)})
                return [[exec_, ("read", {"file_path": "notes.txt"}), ("session_status", {})]]
            case "pair":
                return [[("exec", {"command": self._act(key, 0.2)}), ("stamp", {"key": key, "seconds": 2.5})]]
            case "duo":
                return [[("exec", {"command": self._act(key, 0.2)}), ("stamp", {"key": key, "seconds": 1.2})]]
            case "peek":
                return [[("read", {"file_path": "notes.txt"})]]
            case "nip":
                return [[("exec", {"command": self._act(key, 0.05)})]]
            case "dwell":
                return [[("exec", {"command": self._dwell(key)})]]
            case "block":
                return [[("block", {"key": key})]]
            case "file":
                name = f"file-{key}.txt"
                edit = {"file_path": name, "old_string": "first", "new_string": "second"}
                return [[("write", {"file_path": name, "content": "the first draft"})], [("edit", edit)]]
            case _:
                return []

    def _act(self, key: str, seconds: float) -> str:
        """A command that says when it began and ended, by a clock that nobody can put off."""
        say = f'read up _ < /proc/uptime; echo "{key} %s $up" >> {self._acts}'
        return f"{say % 'begin'}; sleep {seconds}; {say % 'end'}"

    def _dwell(self, key: str) -> str:
        """An act that lasts until the door is open, three seconds at most."""
        wait = f"n=0; while [ ! -e {self._door} ] && [ $n -lt 15 ]; do sleep 0.2; n=$((n+1)); done"
        return self._act(key, 0.1).replace("; sleep 0.1; ", f"; {wait}; ")
