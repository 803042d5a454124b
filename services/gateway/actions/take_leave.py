"""Leave when the process is told to stop: what is open gets its answer first, and nobody is cut off in the middle."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

STREAMS_GO_ON = timedelta(seconds=2)
"""Streams whose run ends within that time see its end; the others end between two events, and are resumed elsewhere."""

LAST_WORDS = timedelta(seconds=2)


class Door(Protocol):
    """Where requests come in."""

    def take_no_more(self) -> None:
        """Accept no more connections."""
        ...

    async def empty(self, within: timedelta) -> bool:
        """Wait until every connection has had its last answer; false when some are left."""
        ...


class Departure:
    """Whether this gateway goes, for those who would stay for long."""

    def __init__(self, rouse: Callable[[], None] = lambda: None) -> None:
        self._rouse = rouse
        self._streams_end = False
        self.is_leaving = False

    @property
    def streams_end(self) -> bool:
        """Whether no stream goes on any more."""
        return self._streams_end

    async def check(self) -> str:
        """For who asks whether new requests may be sent here."""
        return "no: it is being stopped" if self.is_leaving else "ok"

    def end_streams(self) -> None:
        """Streams end with the event that they tell next, or with their next moment of silence; ``rouse`` brings it."""
        self._streams_end = True
        self._rouse()


async def take_leave(
    door: Door, departure: Departure, close_waiting_room: Callable[[], None], *, within: timedelta
) -> None:
    """Returns when nobody is left, or a little after ``within``: whoever waits then is told that the run goes on."""
    departure.is_leaving = True
    door.take_no_more()
    is_empty = await door.empty(min(STREAMS_GO_ON, within))
    departure.end_streams()
    if not is_empty and within > STREAMS_GO_ON:
        is_empty = await door.empty(within - STREAMS_GO_ON)
    close_waiting_room()
    if not is_empty:
        await door.empty(LAST_WORDS)
