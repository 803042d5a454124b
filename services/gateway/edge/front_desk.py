"""Takes a message in and stays with its caller until the end, in whatever words the answer is told."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.follow_run import follow_run
from services.gateway.actions.take_leave import Departure
from services.gateway.actions.wait_for_reply import Expected, WaitingRoom
from services.gateway.actions.watch_runs import RunWatch
from services.gateway.edge.event_stream import Seat, Seats
from services.gateway.edge.hang_up import End, EndedWithItsClient, end_for_nobody, told_or_gone, wants_an_end
from shared.actions.accept_message import Door, accept_message
from shared.domain.run import Accepted, NewRun, Question
from shared.messages.run_events import RunEvent
from shared.ports.bus import RunStreams, WakeUps
from shared.ports.clock import Clock
from shared.ports.control import Control
from shared.ports.history import Transcripts

Outcome = Mapping[str, Any] | Question | None
"""How a run has ended, what it asks, or that neither is known in time."""

Tell = Callable[[UUID, Outcome], Awaitable[Response]]
"""Says what came of a run."""

Follow = Callable[[Accepted, Seat], Response]
"""Says what comes of a run, as it comes; the seat is left at the end."""


@dataclass(frozen=True, slots=True)
class FrontDesk:
    """Where all who send messages and wait are served. While they wait, nothing of what they sent is kept here: the
    wait may be long, many may wait, and a message may have large attachments."""

    inbox: Door
    wake_ups: WakeUps
    control: Control
    streams: RunStreams
    watch: RunWatch
    seats: Seats
    waiting: WaitingRoom
    transcripts: Transcripts
    clock: Clock
    departure: Departure
    end: End

    async def answer(self, new: NewRun, request: Request, tell: Tell, *, within: timedelta) -> Response:
        """Accept the message, wait for what comes of it, and tell that. The caller keeps no hold of ``new``.

        Raises what ``accept_message`` raises.
        """
        made = new.id
        with self.waiting.expect(made) as expected:
            accepted = await self._accept(new)
            del new
            if accepted.run == made:
                told = _told(made, expected, tell, within)
                if not _ends_with(request, accepted):
                    return await told
                is_told, answer = await told_or_gone(told, request.receive)
                return answer if is_told and answer else await end_for_nobody(made, self.end)
        with self.waiting.expect(accepted.run) as expected:  # an idempotency key found an earlier run
            self.waiting.look_now(accepted.run)
            return await _told(accepted.run, expected, tell, within)

    async def stream(self, new: NewRun, request: Request, follow: Follow) -> Response:
        """Accept the message and let it be followed. Raises what ``accept_message`` raises, and ``TryLater`` when too
        many streams are open."""
        seat = self.seats.take()  # before anything is accepted
        try:
            accepted = await self._accept(new)
        except BaseException:
            seat.leave()
            raise
        stream = follow(accepted, seat)
        if accepted.run == new.id and _ends_with(request, accepted):
            return EndedWithItsClient(stream, accepted.run, self.end)
        return stream

    def events(self, run: UUID, *, after: str) -> AsyncGenerator[RunEvent | None, None]:
        """See ``follow_run``."""
        return follow_run(run, after=after, streams=self.streams, watch=self.watch, transcripts=self.transcripts)

    async def _accept(self, new: NewRun) -> Accepted:
        return await accept_message(new, inbox=self.inbox, wake_ups=self.wake_ups, control=self.control)


async def _told(run: UUID, expected: Expected, tell: Tell, within: timedelta) -> Response:
    return await tell(run, await expected.outcome(within=within))


def _ends_with(request: Request, accepted: Accepted) -> bool:
    """Whether the run that this very request made is to end with its client. One that others brought about goes on."""
    return accepted.created and accepted.into is None and wants_an_end(request)
