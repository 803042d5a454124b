"""What was found in memory as the text that a model reads, within a budget. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from shared.domain.memory import Commitment, Episode, Fact, Passage

CHARACTERS_PER_TOKEN = 4
LONGEST_VALUE = 300
LONGEST_EXCERPT = 240

NOTHING_FOUND = (
    "No results found in structured memory or in the indexed files. Try other words, or memory_get with a "
    "workspace-relative path (for example 'MEMORY.md' or 'memory/YYYY-MM-DD.md')."
)

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class RecallManner:
    """How recall reads and what is kept first: of two blocks, the one with the higher priority. ``budget`` is tokens,
    0 means no limit."""

    budget: int = 1500
    facts: int = 20
    episodes: int = 3
    compact: bool = False
    show_tone: bool = True
    episode_header: str = "Recent conversations"
    priority_facts: int = 15
    priority_episodes: int = 25
    priority_passages: int = 35
    priority_commitments: int = 40


@dataclass(frozen=True, slots=True)
class Block:
    """A section of recall, line by line."""

    priority: int
    title: str
    lines: Sequence[str]

    @property
    def tokens(self) -> int:
        """What it takes, guessed from its characters."""
        return len("\n".join(self.lines)) // CHARACTERS_PER_TOKEN


def fact_block(facts: Sequence[Fact], manner: RecallManner) -> Block:
    """What is known."""
    return Block(manner.priority_facts, "Known facts", [_fact(fact, compact=manner.compact) for fact in facts])


def episode_block(episodes: Sequence[Episode], manner: RecallManner) -> Block:
    """What was talked about."""
    return Block(manner.priority_episodes, manner.episode_header, [_episode(each, manner) for each in episodes])


def passage_block(passages: Sequence[Passage], question: str, manner: RecallManner) -> Block:
    """Where it stands in files."""
    words = _folded_words(question)
    return Block(manner.priority_passages, "Memory search", [_passage(passage, words) for passage in passages])


def commitment_block(commitments: Sequence[Commitment], manner: RecallManner) -> Block:
    """What is promised."""
    return Block(manner.priority_commitments, "Open commitments", [_commitment(each) for each in commitments])


def recall_text(blocks: Sequence[Block], budget: int) -> str:
    """The blocks within ``budget`` tokens (0: no limit), and a last line that tells what is there and what is not.

    Blocks are added whole, the higher priority first, each if it fits. One that does not fit gives as many of its first
    lines as there is room for after that. Empty when there is nothing.
    """
    ordered = sorted((block for block in blocks if block.lines), key=lambda block: -block.priority)
    shown: dict[str, Block] = {}
    used = 0
    for block in ordered:
        if budget == 0 or block.tokens <= budget - used:
            shown[block.title] = block
            used += block.tokens
    for block in ordered:
        if block.title not in shown and (part := _part(block, budget - used)) is not None:
            shown[block.title] = part
            used += part.tokens
    if not ordered:
        return ""
    texts = [f"[{block.title}]\n" + "\n".join(shown[block.title].lines) for block in ordered if block.title in shown]
    return "\n\n".join([*texts, _footer(ordered, shown, used, budget)])


def _part(block: Block, room: int) -> Block | None:
    for count in range(len(block.lines) - 1, 0, -1):
        part = Block(block.priority, block.title, block.lines[:count])
        if part.tokens <= room:
            return part
    return None


def _footer(ordered: Sequence[Block], shown: dict[str, Block], used: int, budget: int) -> str:
    loaded = ", ".join(block.title for block in ordered if block.title in shown) or "nothing"
    tokens = f"{used}/{budget} tokens used" if budget else f"{used} tokens loaded (no budget limit)"
    lines = [f"[Memory loaded: {loaded} | {tokens}]"]
    cut = [
        f"{block.title} ({len(shown[block.title].lines)} of {len(block.lines)} shown)"
        for block in ordered
        if block.title in shown and len(shown[block.title].lines) < len(block.lines)
    ]
    if cut:
        lines.append(f"[Cut (over budget): {', '.join(cut)}]")
    if dropped := [block.title for block in ordered if block.title not in shown]:
        lines.append(f"[Dropped (over budget): {', '.join(dropped)} \N{EM DASH} use memory_search with fewer words]")
    return "\n".join(lines)


def _fact(fact: Fact, *, compact: bool) -> str:
    value = shortened(fact.value, LONGEST_VALUE)
    if compact:
        return f"  {fact.entity}.{fact.attribute}: {value}"
    return f"  {fact.entity.replace('_', ' ')} \N{EM DASH} {fact.attribute.replace('_', ' ')}: {value}"


def _episode(episode: Episode, manner: RecallManner) -> str:
    text = f"  [{episode.at:%Y-%m-%d}] {shortened(episode.summary, LONGEST_VALUE)}"
    if manner.show_tone and episode.emotional_tone.lower() not in ("", "neutral"):
        text += f" (tone: {episode.emotional_tone})"
    return text


def _commitment(commitment: Commitment) -> str:
    by = f" (by {commitment.deadline:%Y-%m-%d})" if commitment.deadline else ""
    what = shortened(commitment.what, LONGEST_VALUE)
    return f"  #{commitment.id} - {shortened(commitment.who, LONGEST_EXCERPT)}: {what}{by}"


def _passage(passage: Passage, words: frozenset[str]) -> str:
    place = f"{passage.path}:{passage.start_line}-{passage.end_line}"
    return f"  {place} \N{EM DASH} {excerpt(passage.text, words)}"


def excerpt(text: str, words: frozenset[str]) -> str:
    """So much of the text as one line can show, from its first line on that has the most of the words."""
    lines = text.splitlines() or [""]
    best = max(range(len(lines)), key=lambda at: (len(words & _folded_words(lines[at])), -at))
    if not words & _folded_words(lines[best]):
        best = 0
    return shortened(" ".join(lines[best:]), LONGEST_EXCERPT)


def shortened(text: str, limit: int) -> str:
    """On one line, and with three dots where there was more."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


def _folded_words(text: str) -> frozenset[str]:
    """Words as the search compares them: without case and accents."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return frozenset(_WORD.findall("".join(char for char in plain if not unicodedata.combining(char))))
