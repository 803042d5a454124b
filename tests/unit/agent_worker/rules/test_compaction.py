"""When a session is compacted, and where it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.compaction import compaction_due, cut_at, transcript, warning_due, warning_text
from shared.domain.chat import Message
from tests.builders import call, results, said, user

exchange: st.SearchStrategy[list[Message]] = st.sampled_from(
    [
        [user("q"), said("a")],
        [user("q"), said("", call()), results(("c1", "r")), said("a")],
        [user("q"), said("", call()), results(("c1", "r")), said("", call()), results(("c1", "r")), said("a")],
    ]
)
sessions = st.lists(exchange, max_size=8).map(lambda parts: [row for part in parts for row in part])


@given(sessions, st.floats(min_value=0, max_value=1), st.integers(min_value=0, max_value=8))
def test_a_cut_never_parts_a_call_from_its_result(rows: list[Message], keep: float, least: int) -> None:
    """The kept part must be a history that a provider takes."""
    cut = cut_at(rows, keep_share=keep, min_messages=least)
    assert 0 <= cut <= len(rows)
    if len(rows) < max(least, 2):
        assert cut == 0
    if cut < len(rows):
        assert rows[cut]["role"] != "tool_results"


@pytest.mark.parametrize(("count", "cut"), [(1, 0), (3, 0), (4, 3), (6, 4), (9, 6), (30, 20)])
def test_two_thirds_go_and_a_third_stays(count: int, cut: int) -> None:
    """Of a short session nothing goes."""
    assert cut_at([said("a")] * count, keep_share=1 / 3, min_messages=4) == cut


def test_results_at_the_cut_go_with_their_call() -> None:
    """The cut moves on, not back."""
    rows: list[Message] = [user("q"), said("", call()), results(("c1", "r")), said("a")]
    assert cut_at(rows, keep_share=0.5, min_messages=2) == 3


@pytest.mark.parametrize(
    ("tokens", "warned", "warn", "compact"),
    [
        (799, False, False, False),
        (800, False, True, False),
        (800, True, False, False),
        (1000, False, True, False),
        (1001, True, False, True),
    ],
)
def test_thresholds(tokens: int, warned: bool, warn: bool, compact: bool) -> None:
    """A warning at eighty percent, once; a compaction above the threshold."""
    assert warning_due(context_tokens=tokens, threshold=1000, warning_share=0.8, warned=warned) == warn
    assert compaction_due(context_tokens=tokens, threshold=1000) == compact
    assert "80 %" in warning_text(context_tokens=800, threshold=1000)


def test_the_transcript_holds_everything_in_order_and_results_shortened() -> None:
    """Tool output is what fills a context; its beginning is enough to remember it."""
    rows: list[Message] = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image", "media_type": "x", "data": "AAAA"}],
        },
        said("I look", call("read", "c1", file_path="a.md")),
        results(("c1", "x" * 50)),
        said("done"),
    ]
    text = transcript("before", rows, tool_result_chars=10)
    parts = text.split("\n\n")
    assert parts[0] == "Summary of what came before:\nbefore"
    assert parts[1] == "User: look [image]"
    assert parts[2].startswith("Assistant: I look\n(used read: ")
    assert "a.md" in parts[2]
    assert parts[3] == f"Tool result: {'x' * 10}"
    assert parts[4] == "Assistant: done"
    assert "AAAA" not in text
