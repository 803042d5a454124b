"""What a model reads of what was found."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.recall import (
    CHARACTERS_PER_TOKEN,
    LONGEST_EXCERPT,
    Block,
    RecallManner,
    commitment_block,
    episode_block,
    excerpt,
    fact_block,
    passage_block,
    recall_text,
)
from shared.domain.memory import Commitment, Episode, Fact, Passage

MANNER = RecallManner()
DAY = datetime(2026, 5, 21, 9, tzinfo=UTC)


def test_blocks_stand_under_their_headers_the_more_important_first() -> None:
    """Prompts and people know these words."""
    blocks = [
        fact_block([Fact("anna_smith", "favourite_tea", "Assam")], MANNER),
        episode_block([Episode(DAY, "We planned the trip.", emotional_tone="glad"), Episode(DAY, "Nothing.")], MANNER),
        passage_block([Passage("MEMORY.md", 3, 5, "tea at five")], "tea", MANNER),
        commitment_block([Commitment(7, "Anna", "call Tom", DAY), Commitment(8, "I", "write")], MANNER),
    ]
    assert recall_text(blocks, 1500).splitlines() == [
        "[Open commitments]",
        "  #7 - Anna: call Tom (by 2026-05-21)",
        "  #8 - I: write",
        "",
        "[Memory search]",
        "  MEMORY.md:3-5 \u2014 tea at five",
        "",
        "[Recent conversations]",
        "  [2026-05-21] We planned the trip. (tone: glad)",
        "  [2026-05-21] Nothing.",
        "",
        "[Known facts]",
        "  anna smith \u2014 favourite tea: Assam",
        "",
        "[Memory loaded: Open commitments, Memory search, Recent conversations, Known facts | 46/1500 tokens used]",
    ]


def test_the_operators_manner_is_kept() -> None:
    """`[memory.recall.personality]`."""
    manner = RecallManner(compact=True, show_tone=False, episode_header="Earlier", priority_facts=90)
    blocks = [
        episode_block([Episode(DAY, "Fun.", emotional_tone="glad")], manner),
        fact_block([Fact("anna", "favourite_tea", "Assam")], manner),
    ]
    assert recall_text(blocks, 0).splitlines() == [
        "[Known facts]",
        "  anna.favourite_tea: Assam",
        "",
        "[Earlier]",
        "  [2026-05-21] Fun.",
        "",
        "[Memory loaded: Known facts, Earlier | 10 tokens loaded (no budget limit)]",
    ]


def test_a_block_that_fits_is_whole_though_a_more_important_one_does_not_fit() -> None:
    """A long list must not push out everything else; of what is left it takes as much as there is room for."""
    long, short = Block(40, "Long", ["x" * 40] * 10), Block(10, "Short", ["y" * 40])
    lines = recall_text([short, long], 50).splitlines()
    assert lines.count("x" * 40) == 4
    assert lines.count("y" * 40) == 1
    assert lines[-2:] == [
        "[Memory loaded: Long, Short | 50/50 tokens used]",
        "[Cut (over budget): Long (4 of 10 shown)]",
    ]


def test_what_does_not_fit_at_all_is_named() -> None:
    """The model must know that there is more."""
    text = recall_text([Block(40, "Long", ["x" * 400]), Block(10, "Short", ["y"])], 50)
    assert "xxx" not in text
    assert text.endswith("[Dropped (over budget): Long \u2014 use memory_search with fewer words]")
    assert recall_text([Block(40, "Long", ["x" * 400])], 50).startswith("[Memory loaded: nothing | 0/50 tokens used]")


def test_nothing_found_is_nothing() -> None:
    """No header stands over an empty list."""
    assert recall_text([fact_block([], MANNER), commitment_block([], MANNER)], 1500) == ""


@given(
    st.lists(st.tuples(st.integers(0, 50), st.lists(st.integers(1, 300), max_size=8)), max_size=4), st.integers(1, 300)
)
def test_the_budget_holds(sizes: list[tuple[int, list[int]]], budget: int) -> None:
    """It stands for room in a context window."""
    blocks = [Block(priority, f"B{at}", ["x" * size for size in lines]) for at, (priority, lines) in enumerate(sizes)]
    shown = [part.split("\n", 1)[1] for part in recall_text(blocks, budget).split("\n\n") if part.startswith("[B")]
    assert sum(len(text) // CHARACTERS_PER_TOKEN for text in shown) <= budget


def test_a_passage_is_shown_from_where_it_was_found() -> None:
    """The first words of a chapter say nothing of its end."""
    text = "\n".join(
        ["# A day"] + ["It rained all morning and we stayed in."] * 20 + ["Tom came to Z\u00fcrich.", "The end."]
    )
    shown = excerpt(text, frozenset({"zurich", "tom"}))
    assert shown == "Tom came to Z\u00fcrich. The end."
    assert excerpt(text, frozenset({"absent"})).startswith("# A day It rained")
    assert excerpt("", frozenset()) == ""


@given(st.text(max_size=2000))
def test_a_passage_takes_one_line_of_bounded_length(text: str) -> None:
    """A block is read line by line."""
    shown = excerpt(text, frozenset({"a"}))
    assert len(shown) <= LONGEST_EXCERPT
    assert "\n" not in shown
