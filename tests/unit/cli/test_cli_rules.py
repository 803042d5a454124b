"""Small rules of the command line."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.rules.account import account_line
from cli.rules.amounts import count, duration, money, number, size
from cli.rules.clean_text import clean, one_line
from cli.rules.follower import Follower
from cli.rules.moments import local_time, seconds_of
from cli.rules.refusal import not_there, refusal
from cli.rules.slash import Order, Say, understand
from shared.messages.run_events import RunEvent

URL = "http://127.0.0.1:8100"


@pytest.mark.parametrize(
    ("amount", "currency", "said"),
    [
        (Decimal("0.0123"), "USD", "$0.0123"),
        (0, "USD", "$0.0000"),
        (0.00001, "USD", "<$0.0001"),
        (1234.5, "EUR", "€1,234.5000"),
        (2, "CHF", "2.0000 CHF"),
        (None, None, "$0.0000"),
    ],
)
def test_money_names_its_currency_and_never_hides_a_small_cost(amount: object, currency: object, said: str) -> None:
    """A tenth of a cent, a thousand times a day, is money; "$0.0000" would say it was free."""
    assert money(amount, currency) == said


@given(st.one_of(st.none(), st.text(), st.floats(), st.booleans(), st.lists(st.integers())))
def test_whatever_is_no_number_counts_as_none(value: object) -> None:
    """A gateway of another version may send anything; a table must still be drawn."""
    assert number(value).is_finite()
    count(value)
    size(value)
    money(value, value)
    local_time(value)


def test_durations_read_like_durations() -> None:
    """Nobody divides milliseconds in the head."""
    assert [duration(each) for each in (0.012, 1.34, 125)] == ["12 ms", "1.3 s", "2 min 5 s"]


def test_moments_come_in_two_spellings() -> None:
    """The original tells seconds, the database ISO 8601."""
    assert seconds_of("2026-01-01T00:00:00+00:00") == seconds_of(1_767_225_600) == 1_767_225_600
    assert seconds_of("yesterday") is None
    assert local_time(None) == "?"


@given(st.text())
def test_clean_text_moves_no_cursor(text: str) -> None:
    """Escape, carriage return and their kin are how text takes over a terminal."""
    assert not any((ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160 for char in clean(text))
    assert len(one_line(text, 20)) <= 20
    assert "\n" not in one_line(text)


def test_the_account_counts_cached_tokens_as_read() -> None:
    """They filled the context and were paid for."""
    tokens = {"input": 120, "output": 8, "cache_read": 1000, "cache_write": 0}
    outcome = {"tokens": tokens, "cost": Decimal("0.5"), "currency": "USD", "model": "m", "turns": 2}
    assert account_line(outcome, 1.5) == "$0.5000 · 1,120 tokens in (1,000 cached), 8 out · m · 2 turns · 1.5 s"
    assert account_line({}, 1.5) == "1.5 s"


def test_a_follower_takes_each_event_once() -> None:
    """After a broken connection the gateway may tell the last one again."""
    follower = Follower()
    accepted = RunEvent("0-1", "accepted", {"run_id": "r"})
    assert follower.takes(accepted)
    assert not follower.takes(accepted)
    assert (follower.run_id, follower.last_id) == ("r", "0-1")
    assert follower.takes(RunEvent("1-5", "delta", {}))
    assert not follower.takes(RunEvent("1-4", "delta", {}))
    assert not follower.takes(RunEvent("", "delta", {}))
    assert follower.takes(RunEvent("2-1", "attempt", {}))


def test_a_slash_is_a_command_and_two_are_a_message() -> None:
    """People paste paths."""
    assert understand("  ") is None
    assert understand("hello ") == Say("hello")
    assert understand("//etc/hosts") == Say("/etc/hosts")
    assert understand("/COST week") == Order("cost", "week", "/COST")
    assert understand("/exit") == Order("quit", "", "/exit")
    assert understand("/etc/hosts") == Order("", "", "/etc/hosts")


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (401, '{"error":"unauthorized"}', "LUCYD_HTTP_TOKEN"),
        (400, '{"error":"\\"message\\" field is required"}', '"message" field is required'),
        (408, '{"error":"processing timeout","run_id":"r-1"}', "r-1"),
        (503, '{"error":"queue full"}', "queue full; try again in 7 s"),
        (429, '{"error":"rate limit exceeded"}', "asked too often, and this was not taken; try again in 7 s"),
        (403, '{"error":"this key may not do that (needs read)"}', "may not do that (needs read)"),
        (404, "<h1>It works</h1>", "not Lucyd's gateway"),
        (500, "", "not Lucyd's gateway, or a broken one"),
        (500, '{"error":"internal error"}', "The gateway failed: internal error"),
    ],
)
def test_every_refusal_is_one_sentence(status: int, text: str, words: str) -> None:
    """Codes are for programs."""
    said = refusal(status, text, URL, retry_after="7")
    assert words in said
    assert said.count("\n") == 0
    assert said.endswith(".")


def test_a_missing_gateway_is_told_with_its_address_and_how_to_start_it() -> None:
    """The first thing that goes wrong for everybody."""
    assert all(words in not_there(URL) for words in (URL, "make run", "lucyd up"))
