"""A run as a stream in OpenAI's form: the same events, told in other pieces."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from datetime import timedelta
from uuid import UUID

import orjson

from services.gateway.actions.take_leave import Departure
from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.edge.event_stream import EventStream, Seat
from services.gateway.rules.openai_telling import Frame, Telling, question_event
from shared.domain.run import Question
from shared.messages.run_events import RunEvent, terminal_id, terminal_type
from shared.ports.clock import Clock

DONE = b"data: [DONE]\n\n"
SIGN_OF_LIFE = timedelta(seconds=15)


class OpenAIStream(EventStream):
    """Sends what ``telling`` makes of a run's events; ``closing`` is sent after its end."""

    def __init__(
        self,
        events: AsyncGenerator[RunEvent | None, None],
        telling: Telling,
        *,
        clock: Clock,
        departure: Departure,
        seat: Seat,
        first: RunEvent,
        closing: bytes = b"",
    ) -> None:
        super().__init__(events, clock=clock, departure=departure, seat=seat, first=first)
        self._telling = telling
        self._closing = closing

    def piece(self, event: RunEvent) -> bytes:
        """See ``EventStream.piece``."""
        return framed(self._telling.frames(event))

    def is_over(self) -> bool:
        """See ``EventStream.is_over``."""
        return self._telling.is_over

    def last_words(self) -> bytes:
        """A client must not take for whole what was broken off."""
        broken_off = framed(self._telling.break_off())
        return broken_off or self._closing


def framed(frames: Iterable[Frame]) -> bytes:
    """Server-sent events; JSON has no line breaks of its own, so one data line holds it."""
    return b"".join(
        (b"event: %b\n" % name.encode() if name else b"") + b"data: %b\n\n" % orjson.dumps(data, default=str)
        for name, data in frames
    )


async def await_end(run: UUID, waiting: WaitingRoom) -> AsyncGenerator[RunEvent | None, None]:
    """The end of a run that is answered by another one, or what that one asks; ``None``: nothing yet.

    Ends without either when this gateway goes.
    """
    loop = asyncio.get_running_loop()
    with waiting.expect(run) as expected:
        waiting.look_again(run)
        while True:
            began = loop.time()
            outcome = await expected.outcome(within=SIGN_OF_LIFE)
            if isinstance(outcome, Question):
                yield question_event(run, outcome)
                return
            if outcome is not None:
                yield RunEvent(terminal_id(0), terminal_type(outcome), outcome)
                return
            if loop.time() - began < SIGN_OF_LIFE.total_seconds() / 2:
                return  # nobody waits here any longer
            yield None
