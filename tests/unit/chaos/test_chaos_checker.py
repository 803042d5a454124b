"""The checker of the chaos runs: silent about a good history, and each rule sees the fault it was made for."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from shared.messages.run_events import event_id, terminal_id
from tests.chaos.boundaries import Note
from tests.chaos.checker import RULES, check
from tests.chaos.history import (
    Act,
    Answer,
    Blocked,
    CostRow,
    Disturbance,
    EffectRow,
    Fenced,
    Follower,
    History,
    MessageRow,
    ReservationRow,
    RunRow,
    Told,
)
from tests.chaos.rules.streams import kept_text

RATES = (Decimal("3"), Decimal("15"), Decimal("0.3"), Decimal("3.75"))
TOKENS = (100, 20, 10, 4)


def cost(call: str, **changes: Any) -> CostRow:
    row = CostRow(call, TOKENS, RATES, Decimal(0), estimated=False)
    return replace(replace(row, cost=row.price_of(TOKENS)), **changes)


def guessed(call: str, money: Decimal) -> CostRow:
    """A call of which nobody knows the end: no tokens, no rates."""
    return CostRow(call, (0, 0, 0, 0), (Decimal(0),) * 4, money, estimated=True)


def run(name: str, ordinal: int, epoch: int, **changes: Any) -> RunRow:
    outcome = {"state": "done", "reply": f"reply {name}"}
    row = RunRow(
        name, "c", ordinal, "message", "done", epoch, 1, terminal_id(epoch), outcome, True, 1000.0 + ordinal, name,
        1009.0 + ordinal,
    )  # fmt: skip
    return replace(row, **changes)


def stream_of_a() -> tuple[Told, ...]:
    """Killed once after a stored round of tools, and once more in the middle of the answer."""
    return (
        Told("0-1", "accepted", {"run_id": "a"}),
        Told(event_id(1, 0, 1), "attempt", {"keep": "0-1"}),
        Told(event_id(1, 0, 8), "delta", {"text": "Let me."}),
        Told(event_id(1, 0, 9), "tool_started", {}),
        Told(event_id(1, 1, 3), "delta", {"text": "lost"}),
        Told(event_id(2, 1, 1), "attempt", {"keep": event_id(1, 0, 9)}),
        Told(event_id(2, 1, 6), "delta", {"text": "reply"}),
        Told(event_id(2, 1, 8), "delta", {"text": " a"}),
        Told(terminal_id(2), "done", {"state": "done", "reply": "reply a"}),
    )


def stream_of_b() -> tuple[Told, ...]:
    return (
        Told("0-1", "accepted", {"run_id": "b"}),
        Told(event_id(3, 0, 1), "attempt", {"keep": "0-1"}),
        Told(event_id(3, 0, 8), "delta", {"text": "reply b"}),
        Told(terminal_id(3), "done", {"state": "done", "reply": "reply b"}),
    )


GOOD = History(
    runs=(run("a", 1, 2, attempts=2), run("b", 2, 3)),
    messages=(
        MessageRow("s", 1, "a", "user"),
        MessageRow("s", 2, "a", "assistant", calls=("t1",), text="Let me."),
        MessageRow("s", 3, "a", "tool_results", results=("t1",)),
        MessageRow("s", 4, "a", "assistant", text="reply a"),
        MessageRow("s", 5, "b", "user"),
        MessageRow("s", 6, "b", "assistant", text="reply b"),
    ),
    effects=(EffectRow("a", "exec", "done", succeeded=True), EffectRow("b", "exec", "in_doubt", succeeded=False)),
    reservations=tuple(
        ReservationRow(call, f"w{epoch}", run_, "c", epoch, Decimal(1), settled=True)
        for call, run_, epoch in (("c1", "a", 1), ("c2", "a", 1), ("c3", "a", 2), ("c4", "b", 3))
    ),
    costs=(cost("c1"), guessed("c2", Decimal(1)), cost("c3"), cost("c4")),
    epochs={"c": (0, 1, 1, 2, 3)},
    streams={"a": stream_of_a(), "b": stream_of_b()},
    followers=(Follower("a", stream_of_a(), 1001.0, 1010.0, connections=3),),
    answers=(Answer("a", "a", "reply a"), Answer("b", "b", "reply b")),
    calls={"c1": 1, "c2": 1, "c3": 1, "c4": 1},
    billed={"c1": TOKENS, "c2": TOKENS, "c3": TOKENS, "c4": TOKENS},
    spoiled=frozenset({"c9"}),
    acts=(Act("a", 1003.0, 1004.0), Act("b", 1013.2, 1013.5)),
    stamps={"a": ("a:1:1", "a:1:1")},
    last_ordinals={"c": 2},
    webhooks=(("a", "sent"), ("b", "sent")),
    posted={"a": 1, "b": 3},
    fenced=(Fenced(1, 1004.5),),
    blocked=(Blocked(3, 1001.0, 1009.0, "sleep"),),
    deaths={1: 1004.2, 2: 1013.6},
    notes=(
        Note(1001.5, 1, "claimed", "c", "a", "1"),
        Note(1003.0, 1, "acting", "c", "a", "a:1:0 exec"),
        Note(1004.0, 1, "storing results", "c", "a"),
        Note(1004.6, 2, "claimed", "c", "a", "2"),
        Note(1010.0, 2, "telling", "c", "a"),
        Note(1010.1, 2, "told", "c", "a"),
        Note(1012.0, 2, "claimed", "c", "b", "3"),
        Note(1013.1, 2, "acting", "c", "b", "b:1:0 exec"),
        Note(1013.9, 3, "claimed", "c", "b", "4"),
        Note(1014.0, 3, "telling", "c", "b"),
        Note(1014.1, 3, "told", "c", "b"),
    ),
)


def with_run(**changes: Any) -> History:
    return replace(GOOD, runs=(GOOD.runs[0], replace(GOOD.runs[1], **changes)))


def with_message(index: int, **changes: Any) -> History:
    rows = list(GOOD.messages)
    rows[index] = replace(rows[index], **changes)
    return replace(GOOD, messages=tuple(rows))


def with_stream(*events: Told) -> History:
    return replace(GOOD, streams={**GOOD.streams, "b": events})


def with_cost(**changes: Any) -> History:
    return replace(GOOD, costs=(cost("c1", **changes), *GOOD.costs[1:]))


def with_guess(money: Decimal) -> History:
    return replace(GOOD, costs=(guessed("c1", money), *GOOD.costs[1:]))


def with_reservation(**changes: Any) -> History:
    return replace(GOOD, reservations=(replace(GOOD.reservations[0], **changes), *GOOD.reservations[1:]))


def told_to_client(*events: Told) -> History:
    return replace(GOOD, followers=(Follower("b", events, 1002.0, 1010.0),))


def without(events: tuple[Told, ...], index: int) -> tuple[Told, ...]:
    return (*events[:index], *events[index + 1 :])


B = stream_of_b()
PLANTED: dict[str, tuple[str, Callable[[], History]]] = {
    "a run is never ended": ("none_lost", lambda: with_run(state="running")),
    "a row is gone that a client was told of": ("none_lost", lambda: replace(GOOD, answers=(Answer("x", "x", ""),))),
    "a run fails of an outage": ("none_failed", lambda: with_run(state="failed")),
    "a run ends without an outcome": ("one_outcome", lambda: with_run(outcome=None)),
    "outcome and state differ": ("one_outcome", lambda: with_run(outcome={"state": "failed", "reply": "reply b"})),
    "an end is never published": ("one_outcome", lambda: with_run(published=False)),
    "an ask sent again makes a second run": ("one_run_per_ask", lambda: with_run(key="a")),
    "a client is never answered": ("answered_alike", lambda: replace(GOOD, answers=(Answer("a", fault="timeout"),))),
    "a client hears another answer": ("answered_alike", lambda: replace(GOOD, answers=(Answer("a", "a", "else"),))),
    "a client hears of two runs": (
        "answered_alike",
        lambda: replace(GOOD, answers=(Answer("a", "a", "reply a"), Answer("a", "b", "reply b"))),
    ),
    "a process crashes": ("none_crashed", lambda: replace(GOOD, crashes=("gateway-0.log: ended with 70",))),
    "a run waits although somebody could take it": ("none_waits_long", lambda: with_notes_later("b", 20.0)),
    "an entry is left that nobody will read": ("inbound_drained", lambda: replace(GOOD, inbound=("1-1",))),
    "a webhook is given up": ("webhooks_arrive", lambda: replace(GOOD, webhooks=(("a", "sent"), ("b", "dead")))),
    "a webhook is not made": ("webhooks_arrive", lambda: replace(GOOD, webhooks=GOOD.webhooks[:1])),
    "a webhook is made twice": ("webhooks_arrive", lambda: replace(GOOD, webhooks=(*GOOD.webhooks, ("a", "sent")))),
    "a webhook is said to be sent and never came": ("webhooks_arrive", lambda: replace(GOOD, posted={"a": 1})),
    "an ordinal is left out": ("ordinals_whole", lambda: with_run(ordinal=3)),
    "an ordinal is given twice": ("ordinals_whole", lambda: with_run(ordinal=1)),
    "a conversation counts more rows than it has": (
        "ordinals_whole",
        lambda: replace(GOOD, last_ordinals={"c": 3}),
    ),
    "a run is taken from a worker that is well": (
        "claims_explained",
        lambda: replace(GOOD, deaths={}, fenced=()),
    ),
    "a worker is fenced for a blocked loop": (
        "no_takeover_while_blocked",
        lambda: replace(GOOD, fenced=(*GOOD.fenced, Fenced(3, 1008.0))),
    ),
    "clients keep what is not stored": ("steps_kept", lambda: with_stale_piece()),
    "clients drop what is stored": ("steps_kept", lambda: with_dropped_step()),
    "an act that had long ended is in doubt": ("doubts_explained", lambda: with_death_of_2_at(1020.0)),
    "an act is repeated under another key": (
        "repeated_under_one_key",
        lambda: replace(GOOD, stamps={"a": ("a:1:1", "a:3:1")}),
    ),
    "a call of the last attempt is guessed": (
        "guesses_explained",
        lambda: replace(GOOD, costs=(*GOOD.costs[:3], guessed("c4", Decimal(1)))),
    ),
    "a call that never came to the provider costs something": (
        "guesses_explained",
        lambda: replace(GOOD, costs=(*GOOD.costs[:3], guessed("c4", Decimal(1))), calls={"c1": 1, "c2": 1, "c3": 1}),
    ),
    "an idle conversation is owned": ("none_owned", lambda: replace(GOOD, owned=("c",))),
    "a message is missing": ("history_linear", lambda: replace(GOOD, messages=without_message(3))),
    "two answers follow each other": ("history_linear", lambda: with_message(4, role="assistant")),
    "the history ends with a question": ("history_linear", lambda: with_message(5, dropped=True)),
    "a late worker writes after its heir": ("history_linear", lambda: with_message(5, run="a")),
    "a message is asked twice": ("asked_once", lambda: with_message(4, run="a")),
    "a call has no result": ("calls_answered", lambda: with_message(2, results=())),
    "a result has no call": ("calls_answered", lambda: with_message(1, calls=())),
    "an id of a call stands twice": ("calls_answered", lambda: with_message(1, calls=("t1", "t1"))),
    "an epoch falls": ("epochs_monotonic", lambda: replace(GOOD, epochs={"c": (0, 2, 1)})),
    "a later run has an older epoch": ("epochs_monotonic", lambda: with_run(epoch=2)),
    "two workers share an epoch": ("one_worker_per_epoch", lambda: with_reservation(worker="w9")),
    "an id comes twice": ("ids_increase", lambda: with_stream(B[0], B[1], B[2], B[2], B[3])),
    "a stale attempt speaks after its heir": (
        "ids_increase",
        lambda: told_to_client(*B[:3], Told(event_id(2, 0, 9), "delta", {"text": "stale"}), B[3]),
    ),
    "a stream has no end": ("one_end", lambda: with_stream(*B[:3])),
    "a stream has two ends": ("one_end", lambda: with_stream(*B, Told(terminal_id(4), "done", B[3].data))),
    "something comes after the end": (
        "one_end",
        lambda: with_stream(*B, Told(event_id(4, 0, 1), "attempt", {"keep": "0-1"})),
    ),
    "the end is not that of the table": ("one_end", lambda: with_run(terminal=terminal_id(9))),
    "a stream is not there": ("streams_there", lambda: replace(GOOD, streams={"a": stream_of_a()})),
    "a piece of the reply is lost": ("streams_whole", lambda: with_stream(*without(B, 2))),
    "a stale piece is kept": ("streams_whole", lambda: with_stale_piece()),
    "a stream does not begin at its beginning": ("streams_whole", lambda: with_stream(*B[2:])),
    "a stream begins at an attempt, and the gateway had time": ("streams_whole", lambda: with_stream(*B[1:])),
    "a client is not told the beginning": ("streams_whole", lambda: told_to_client(*B[1:])),
    "a resumed client misses an event": ("resumed_without_gaps", lambda: told_to_client(*without(B, 1))),
    "the provider is asked without a reservation": (
        "requests_reserved",
        lambda: replace(GOOD, calls={**GOOD.calls, "c5": 1}),
    ),
    "the provider is asked twice under one id": (
        "requests_reserved",
        lambda: replace(GOOD, calls={**GOOD.calls, "c4": 2}),
    ),
    "a call stays open": ("reservations_settled", lambda: with_reservation(settled=False)),
    "a call is settled and not booked": ("reservations_settled", lambda: replace(GOOD, costs=GOOD.costs[1:])),
    "a cost has no reservation": ("reservations_settled", lambda: replace(GOOD, costs=(*GOOD.costs, cost("c9")))),
    "a cost is not tokens times rates": ("costs_right", lambda: with_cost(cost=Decimal("0.5"))),
    "tokens are not the provider's": (
        "costs_right",
        lambda: with_cost(tokens=(1, 1, 1, 1), cost=cost("c1").price_of((1, 1, 1, 1))),
    ),
    "a guess is above the worst case": ("costs_right", lambda: with_guess(Decimal(2))),
    "a guess is below what was billed": ("costs_right", lambda: with_guess(Decimal("0.0001"))),
    "the sums differ": ("sums_agree", lambda: with_reservation(settled=False)),
    "an act happens twice": ("acted_at_most_once", lambda: replace(GOOD, acts=(*GOOD.acts, GOOD.acts[0]))),
    "an act is said to be done and never was": ("acts_told_truly", lambda: replace(GOOD, acts=())),
    "a run is done with an open act": (
        "acts_told_truly",
        lambda: replace(GOOD, effects=(EffectRow("a", "exec", "intended", succeeded=False),)),
    ),
}


def without_message(index: int) -> tuple[MessageRow, ...]:
    return (*GOOD.messages[:index], *GOOD.messages[index + 1 :])


def with_stale_piece() -> History:
    """The new attempt forgets to say that what the old one told of this step is void."""
    events = list(stream_of_a())
    events[5] = replace(events[5], data={"keep": event_id(1, 1, 3)})
    return replace(GOOD, streams={**GOOD.streams, "a": tuple(events)})


def with_dropped_step() -> History:
    """The new attempt tells clients to drop a step that is stored."""
    events = list(stream_of_a())
    events[5] = replace(events[5], data={"keep": "0-1"})
    return replace(GOOD, streams={**GOOD.streams, "a": tuple(events)})


def with_death_of_2_at(time: float) -> History:
    later = tuple(replace(note, at=time + 1) if note.at > 1013.5 else note for note in GOOD.notes)
    return replace(GOOD, deaths={**GOOD.deaths, 2: time}, notes=later)


def with_notes_later(run: str, seconds: float) -> History:
    notes = tuple(replace(note, at=note.at + seconds) if note.run == run else note for note in GOOD.notes)
    return replace(GOOD, notes=notes)


def test_a_good_history_breaks_no_rule() -> None:
    """A checker that cries wolf is switched off."""
    assert check(GOOD) == {}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen(fault: str) -> None:
    """A rule that can't turn red proves nothing."""
    rule, bad = PLANTED[fault]
    assert rule in check(bad())


def test_every_rule_has_a_planted_fault() -> None:
    """So that nobody adds a rule without having seen it red."""
    assert {rule for rule, _ in PLANTED.values()} == set(RULES)


def test_pieces_that_redis_lost_when_it_was_emptied_are_forgiven() -> None:
    """Without this every wiped Redis would look like a fault; the end and the order are asked for all the same."""
    wiped = replace(with_stream(B[3]), wipes=((1003.0, 1003.1),))
    assert check(wiped) == {}
    twice = replace(with_stream(B[3], B[3]), wipes=((1003.0, 1003.1),))
    assert set(check(twice)) == {"ids_increase", "one_end"}


def test_a_fault_excuses_what_it_held_up_and_nothing_else() -> None:
    """A rule that forgave every wait while faults come would never turn red in a chaos run."""
    late = with_notes_later("b", 20.0)
    assert "none_waits_long" not in check(replace(late, disturbances=(Disturbance("kill postgres", 1020.0, 1025.0),)))
    assert "none_waits_long" in check(replace(late, disturbances=(Disturbance("kill postgres", 1001.0, 1002.0),)))
    doubtful = with_death_of_2_at(1020.0)
    assert "doubts_explained" not in check(replace(doubtful, disturbances=(Disturbance("pause", 1013.0, 1019.0, 2),)))
    assert "doubts_explained" in check(replace(doubtful, disturbances=(Disturbance("pause", 1013.0, 1019.0, 9),)))


def test_a_stream_whose_end_was_told_by_a_sweep_may_lack_pieces() -> None:
    """Its worker was held up after the commit; clients have the rest from the table of steps."""
    swept = tuple(replace(note, at=note.at + 2) if note.mark == "told" else note for note in GOOD.notes)
    assert check(replace(with_stream(*without(B, 2)), notes=swept)) == {}
    false = replace(B[2], data={"text": "reply x"})
    assert set(check(replace(with_stream(B[0], B[1], false, B[3]), notes=swept))) == {"steps_kept"}
    spoiled = replace(with_stream(B[0], B[1], false, B[3]), notes=swept, spoiled=frozenset({"c4"}))
    assert check(spoiled) == {}  # the ``retry`` that makes it void is lacking too


def test_a_stream_may_lack_what_the_gateway_had_no_time_to_say() -> None:
    """Accepting waits 200 ms for Redis and no longer; a sweep finds the run, and clients are told by the gateway."""
    unsaid = replace(with_stream(*B[1:]), followers=told_to_client(*B).followers)
    assert set(check(unsaid)) == {"streams_whole"}
    assert check(replace(unsaid, unwoken=frozenset({"b"}))) == {}
    killed = Disturbance("kill gateway", 1002.1, 1002.1, 77)
    assert check(replace(unsaid, disturbances=(killed,))) == {}


def test_what_an_attempt_makes_void_is_not_kept() -> None:
    """This is what every client has to do with ``keep``."""
    assert kept_text(stream_of_a()) == "reply a"
    assert kept_text(()) == ""
