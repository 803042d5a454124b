"""A front desk over memory."""

from functools import partial

from services.gateway.actions.take_leave import Departure
from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.actions.watch_runs import RunWatch
from services.gateway.edge.event_stream import Seats
from services.gateway.edge.front_desk import FrontDesk
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.transcripts import InMemoryTranscripts
from tests.runs_worlds import InMemoryWorld


def front_desk(world: InMemoryWorld, bus: InMemoryBus) -> FrontDesk:
    """One with ten seats."""
    transcripts = InMemoryTranscripts(world.tables)
    return FrontDesk(
        streams=bus,
        watch=RunWatch(bus, transcripts, world.clock),
        seats=Seats(10),
        waiting=WaitingRoom(bus, bus, world.inbox, world.clock),
        transcripts=transcripts,
        clock=world.clock,
        departure=Departure(),
        end=partial(world.inbox.cancel, reason="Its client hung up."),
    )
