"""What a schedule becomes when it is due."""

from datetime import UTC, datetime, time, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from services.scheduler.rules.firing import Manner, is_quiet, outbound_of, pause, run_of, text_of
from shared.domain.run import Address
from shared.domain.schedule import Schedule, ScheduleKind

VIENNA = ZoneInfo("Europe/Vienna")
DUE = datetime(2026, 7, 1, 10, 0, tzinfo=UTC)
MANNER = Manner(VIENNA, timedelta(hours=1), 10)


def timer(kind: ScheduleKind = "reminder", text: str = "call mum", due: datetime = DUE) -> Schedule:
    return Schedule(7, "telegram:1", "telegram", "person:telegram:1", "1", "Ann", kind, text, due, due)


def test_the_agent_reads_what_it_was_told_to_and_what_time_it_is() -> None:
    """The first line is that of the original."""
    assert (
        text_of(timer(), now=DUE, zone=VIENNA)
        == "[Reminder] call mum\n[It is Wednesday 2026-07-01 12:00, Europe/Vienna.]"
    )
    assert text_of(timer("task", "water"), now=DUE, zone=VIENNA).startswith("[Scheduled task] water\n")


@pytest.mark.parametrize(("clock", "quiet"), [("21:59", False), ("22:00", True), ("02:00", True), ("07:59", True),
                                              ("08:00", False)])  # fmt: skip
def test_at_night_it_reads_that_people_sleep(clock: str, quiet: bool) -> None:
    """By the person's clock, and not the server's."""
    assert is_quiet(time.fromisoformat(clock)) == quiet
    now = datetime.fromisoformat(f"2026-07-01T{clock}").replace(tzinfo=VIENNA)
    assert ("Do not disturb" in text_of(timer(due=now), now=now, zone=VIENNA)) == quiet


@pytest.mark.parametrize(("late", "words"), [(timedelta(minutes=5), None), (timedelta(minutes=6), "6 min late"),
                                             (timedelta(hours=2, minutes=3), "2 h 3 min late"),
                                             (timedelta(days=1, minutes=5), "1 d 0 h 5 min late")])  # fmt: skip
def test_what_an_outage_has_delayed_says_so(late: timedelta, words: str | None) -> None:
    """*The meeting begins in ten minutes* is another thing an hour later."""
    text = text_of(timer(), now=DUE + late, zone=VIENNA)
    assert ("late" in text) == (words is not None)
    if words:
        assert f"[This was due at 2026-07-01 12:00 and comes {words}.]" in text


def test_the_same_schedule_is_the_same_request_whenever_it_is_fired() -> None:
    """The text says what time it is; what makes it one run does not."""
    run = UUID(int=1)
    first, again = (run_of(timer(), run, now=DUE + late, manner=MANNER) for late in (timedelta(0), timedelta(hours=3)))
    assert first.text != again.text
    assert first.idempotency == again.idempotency
    assert first.idempotency is not None
    assert (first.idempotency.scope, first.idempotency.key) == ("schedule", "7:2026-07-01T10:00:00+00:00")
    assert (first.source, first.tier, first.sender, first.address.principal) == (
        "system", "operational", "1", "person:telegram:1",
    )  # fmt: skip


@pytest.mark.parametrize(("late", "text"), [(timedelta(minutes=5), "see you"),
    (timedelta(hours=1), "see you\n(This was due at 2026-07-01 12:00 and comes 1 h 0 min late.)")])  # fmt: skip
def test_a_message_is_said_word_for_word_where_its_receiver_is(late: timedelta, text: str) -> None:
    """No model is asked; whoever fires it again asks for the same run."""
    run, bob = UUID(int=1), Address("telegram:8", "telegram", "person:telegram:8", "Bob")
    first, again = (
        outbound_of(timer("message", "see you"), run, bob, now=DUE + after, manner=MANNER)
        for after in (late, timedelta(hours=3))
    )
    assert (first.kind, first.address, first.text, first.sender) == ("outbound", bob, text, "1")
    assert first.idempotency == again.idempotency
    assert first.idempotency != run_of(timer("message", "see you"), run, now=DUE, manner=MANNER).idempotency


def test_waits_grow_and_are_never_shorter_than_was_asked() -> None:
    """A full conversation is not asked a thousand times an hour."""
    assert [pause(tries, asked=0).total_seconds() for tries in (0, 1, 5, 6, 300)] == [5, 10, 160, 300, 300]
    assert pause(0, asked=30) == timedelta(seconds=30)
