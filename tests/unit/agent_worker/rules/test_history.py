"""Stored rows as a model reads them."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.history import (
    NO_RESULT,
    closing_rows,
    readable,
    readable_history,
    stamp,
    unanswered_results,
)
from shared.domain.chat import Message
from tests.builders import call, results, said, user


def test_the_stamp_is_the_same_everywhere() -> None:
    """Prompt caches and golden histories hang on it."""
    assert stamp(datetime(2026, 5, 21, 21, 33, tzinfo=UTC)) == "[Thu, 21. May 2026 - 21:33 UTC]"
    assert stamp(datetime(2026, 1, 4, 3, 5, tzinfo=UTC)) == "[Sun, 4. Jan 2026 - 03:05 UTC]"


def test_a_user_row_is_read_with_its_time_and_warning() -> None:
    """The warning comes from the runtime and says so."""
    row = user("hello")
    assert readable(row) == {"role": "user", "content": "[Thu, 21. May 2026 - 21:33 UTC]\nhello"}
    row["warning"] = "80 %"
    head = "[system: 80 %]\n\n[Thu, 21. May 2026 - 21:33 UTC]"
    assert readable(row) == {"role": "user", "content": f"{head}\nhello"}
    row["content"] = [{"type": "text", "text": "look"}]
    assert readable(row) == {
        "role": "user",
        "content": [{"type": "text", "text": head}, {"type": "text", "text": "look"}],
    }


def test_the_summary_comes_first() -> None:
    """And is marked as one."""
    first, second = readable_history("they met", [said("hi")])
    assert first == {
        "role": "user",
        "content": "[Previous conversation summary]\nthey met\n[The conversation goes on below.]",
    }
    assert second == said("hi")


def test_an_open_call_is_closed_before_anything_else_is_said() -> None:
    """Providers refuse a history with a call that has no result."""
    asked = said("", call("a", "c1"), call("b", "c2"))
    history = readable_history(None, [user("q"), asked, user("next")])
    assert history[2] == unanswered_results(asked, NO_RESULT)


def test_a_run_that_stops_closes_what_it_has_opened() -> None:
    """And says that it stopped."""
    assert closing_rows([], "why") == []
    assert closing_rows([said("a", call()), results(("c1", "x"))], "why") == [said("[Stopped: why]")]
    closed, stopped = closing_rows([said("a", call())], "why")
    assert closed["role"] == "tool_results"
    assert closed["results"][0]["tool_use_id"] == "c1"
    assert "why" in closed["results"][0]["content"]
    assert stopped == said("[Stopped: why]")


rows = st.lists(st.sampled_from([user("q"), said("a"), said("", call("x", "c1")), results(("c1", "r"))]), max_size=12)


@given(rows)
def test_whatever_is_stored_can_be_sent_to_a_provider(stored: list[Message]) -> None:
    """However broken: every call has its result right behind it, and no result stands alone."""
    history = readable_history(None, [*stored, user("now")])
    for before, row in zip([None, *history], history, strict=False):
        open_call = before is not None and before["role"] == "assistant" and bool(before.get("tool_calls"))
        assert (row["role"] == "tool_results") == open_call
    kept = [row for row in stored if row["role"] != "tool_results"]
    assert [row for row in history[:-1] if row["role"] != "tool_results"] == [readable(row) for row in kept]
