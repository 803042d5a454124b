"""The ASGI application: the directory with its door, inside the envelope, and whoever is answered is heard out."""

from collections.abc import Sequence

from starlette.types import ASGIApp

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.directory import Directory, Door
from services.gateway.edge.envelope import Envelope
from services.gateway.edge.hear_out import HearsOut
from services.gateway.edge.meter import Meter
from services.gateway.edge.operation import Operation


def gateway_app(
    operations: Sequence[Operation], bodies: Bodies, door: Door, *, agent: str, meter: Meter, access_log: bool
) -> ASGIApp:
    """The whole gateway."""
    return HearsOut(Envelope(Directory(operations, door, bodies), agent=agent, meter=meter, access_log=access_log))
