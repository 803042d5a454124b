"""A gateway that is told to stop: in which order it lets go of whom."""

from datetime import timedelta

import pytest

from services.gateway.actions.take_leave import LAST_WORDS, STREAMS_GO_ON, Departure, take_leave

WITHIN = timedelta(seconds=18)


class FakeDoor:
    """Somebody goes with each call, the last one with the call of that number."""

    def __init__(self, steps: list[str], *, empty_after: int) -> None:
        self._steps = steps
        self._empty_after = empty_after
        self.waited: list[timedelta] = []

    def take_no_more(self) -> None:
        """Noted."""
        self._steps.append("no more")

    async def empty(self, within: timedelta) -> bool:
        """Noted."""
        self._steps.append("wait")
        self.waited.append(within)
        return len(self.waited) >= self._empty_after


class NotedDeparture(Departure):
    """Tells when it ends the streams."""

    def __init__(self, steps: list[str]) -> None:
        super().__init__()
        self._steps = steps

    def end_streams(self) -> None:
        """Noted."""
        self._steps.append("streams end")
        super().end_streams()


@pytest.mark.parametrize(
    ("empty_after", "steps"),
    [
        (1, ["no more", "wait", "streams end", "away"]),
        (2, ["no more", "wait", "streams end", "wait", "away"]),
        (9, ["no more", "wait", "streams end", "wait", "away", "wait"]),
    ],
)
async def test_answers_come_first_then_the_door_is_shut(empty_after: int, steps: list[str]) -> None:
    """Whoever waits has its reply while there is time; a stream can be resumed and holds up nobody."""
    seen: list[str] = []
    door = FakeDoor(seen, empty_after=empty_after)
    await take_leave(door, NotedDeparture(seen), lambda: seen.append("away"), within=WITHIN)
    assert seen == steps
    assert sum(door.waited, timedelta(0)) <= WITHIN + LAST_WORDS


async def test_a_short_time_is_kept_to() -> None:
    """Whoever starts us may kill us when it is over."""
    door = FakeDoor([], empty_after=9)
    await take_leave(door, Departure(), lambda: None, within=STREAMS_GO_ON / 2)
    assert door.waited == [STREAMS_GO_ON / 2, LAST_WORDS]


async def test_who_asks_whether_to_send_requests_here_is_told_of_the_leave() -> None:
    """Whoever spreads requests asks over a connection that is open, until the last of them is closed."""
    departure, answers = NotedDeparture([]), []

    class AskedMeanwhile(FakeDoor):
        """Somebody asks while the last ones go."""

        async def empty(self, within: timedelta) -> bool:
            answers.append(await departure.check())
            return await super().empty(within)

    assert await departure.check() == "ok"
    await take_leave(AskedMeanwhile([], empty_after=1), departure, lambda: None, within=WITHIN)
    assert answers == ["no: it is being stopped"]
