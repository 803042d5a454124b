"""When a webhook is tried again, and when not."""

from datetime import timedelta

import pytest

from services.gateway.rules.webhook_verdict import Again, Dead, Receipt, Sent, verdict

NO_TIME = timedelta(0)
REFUSED = Receipt(500)


def pause(attempts: int, *, chance: float = 0.5, receipt: Receipt = REFUSED) -> float:
    judged = verdict(receipt, attempts=attempts, tried_for=NO_TIME, chance=chance)
    assert isinstance(judged, Again)
    return judged.after.total_seconds()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_a_receipt(status: int) -> None:
    """Receivers answer as their framework likes."""
    assert verdict(Receipt(status), attempts=3, tried_for=NO_TIME, chance=0.5) == Sent(status)


def test_pauses_double_from_five_seconds_to_an_hour() -> None:
    """A receiver that restarts gets it soon, one that is down for long is left alone."""
    assert [pause(attempts) for attempts in range(1, 13)] == [
        5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600,
    ]  # fmt: skip
    assert pause(10_000) == 3600


def test_pauses_differ_by_a_fifth() -> None:
    """Those that failed together do not come back together."""
    assert pause(1, chance=0.0) == pytest.approx(4.0)
    assert pause(1, chance=1.0) == pytest.approx(6.0)


def test_a_receiver_that_asks_for_time_gets_it_up_to_an_hour() -> None:
    """Retry-After is heard, and can't put anything off for ever."""
    assert pause(1, receipt=Receipt(503, wait=timedelta(minutes=2))) == 120
    assert pause(1, receipt=Receipt(503, wait=timedelta(days=7))) == 3600
    assert pause(5, receipt=Receipt(503, wait=timedelta(seconds=1))) == 80


def test_after_a_day_it_is_dead_with_its_last_reason() -> None:
    """Somebody must look at it then."""
    late = timedelta(hours=23, minutes=30)
    gone = verdict(Receipt(None, "no answer within 10 s"), attempts=31, tried_for=late, chance=0.5)
    assert gone == Dead("no answer within 10 s; tried 31 times")
    assert isinstance(verdict(REFUSED, attempts=1, tried_for=late, chance=0.5), Again)


def test_a_receiver_that_is_gone_is_believed_at_once() -> None:
    """410 says: never again."""
    assert isinstance(verdict(Receipt(410), attempts=1, tried_for=NO_TIME, chance=0.5), Dead)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 429, 500])
def test_what_is_no_receipt_is_tried_again(status: int) -> None:
    """Also redirects, which are not followed: the token would go where nobody configured it to go."""
    judged = verdict(Receipt(status), attempts=1, tried_for=NO_TIME, chance=0.5)
    assert judged == Again(timedelta(seconds=5), f"the receiver answered {status}")
