"""Accepts a message and stays with its caller until the end, in whatever words the answer is told."""

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
from services.gateway.edge.door import key_of
from services.gateway.edge.event_stream import Seat, Seats
from services.gateway.edge.hang_up import End, EndedWithItsClient, end_for_nobody, ends_with_client, told_or_gone
from services.gateway.edge.intake import Received
from shared.domain.run import Accepted, Question
from shared.messages.run_events import RunEvent
from shared.ports.bus import RunStreams
from shared.ports.clock import Clock
from shared.ports.history import Transcripts

Outcome = Mapping[str, Any] | Question | None
"""How a run has ended, what it asks, or that neither is known in time."""

Tell = Callable[[UUID, Outcome], Awaitable[Response]]
"""Says what came of a run."""

Follow = Callable[[Accepted, Seat], Response]
"""Says what comes of a run, as it comes; the seat is left at the end."""


@dataclass(frozen=True, slots=True)
class FrontDesk:
    """Where all who send messages and wait are served. While they wait, nothing of what they sent is kept here."""

    streams: RunStreams
    watch: RunWatch
    seats: Seats
    waiting: WaitingRoom
    transcripts: Transcripts
    clock: Clock
    departure: Departure
    end: End

    async def answer(self, message: Received, request: Request, tell: Tell, *, within: timedelta) -> Response:
        """Accept the message, wait for what comes of it, and tell that. Raises what ``accept_message`` raises."""
        with message, self.waiting.expect(message.run) as expected:
            accepted = await message.accept()
            if accepted.run == message.run:
                told = _told(accepted.run, expected, tell, within)
                if not ends_with_client(request, accepted):
                    return await told
                is_told, answer = await told_or_gone(told, request.receive)
                if is_told and answer:
                    return answer
        if accepted.run == message.run:
            return await end_for_nobody(accepted.run, self.end)
        with self.waiting.expect(accepted.run) as expected:  # an idempotency key found an earlier run
            self.waiting.look_now(accepted.run)
            return await _told(accepted.run, expected, tell, within)

    async def stream(self, message: Received, request: Request, follow: Follow) -> Response:
        """Accept the message and let it be followed. Raises what ``accept_message`` raises, and ``TryLater`` when too
        many streams are open."""
        with message:
            seat = self.seats.take(key_of(request))  # before anything is accepted
            try:
                accepted = await message.accept()
            except BaseException:
                seat.leave()
                raise
        stream = follow(accepted, seat)
        if accepted.run == message.run and ends_with_client(request, accepted):
            return EndedWithItsClient(stream, accepted.run, self.end)
        return stream

    def events(self, run: UUID, *, after: str) -> AsyncGenerator[RunEvent | None, None]:
        """See ``follow_run``."""
        return follow_run(run, after=after, streams=self.streams, watch=self.watch, transcripts=self.transcripts)


async def _told(run: UUID, expected: Expected, tell: Tell, within: timedelta) -> Response:
    return await tell(run, await expected.outcome(within=within))
