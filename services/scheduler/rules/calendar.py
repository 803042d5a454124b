"""When which errand is due, in UTC. Each due time gives the job its id, so it is asked for once, whoever leads."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.messages import routes

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Errand:
    """A job that is wanted ``every`` so often, ``past`` the beginning of each such period.

    Who comes late still asks for it while it is at most ``late`` old.
    """

    name: str
    queue: str
    job: str
    every: timedelta
    past: timedelta
    late: timedelta


@dataclass(frozen=True, slots=True)
class Due:
    """An errand and the time for which it is to be done."""

    errand: Errand
    at: datetime

    @property
    def job_id(self) -> str:
        """The same for everybody who finds it due."""
        return f"{self.errand.name}_{self.at:%Y%m%dT%H%M}"


INDEX = Errand(
    "index",
    routes.INDEX_QUEUE,
    routes.INDEX_JOB,
    every=timedelta(minutes=10),
    past=timedelta(0),
    late=timedelta(minutes=10),
)
CONSOLIDATE = Errand(
    "consolidate",
    routes.CONSOLIDATE_QUEUE,
    routes.CONSOLIDATE_JOB,
    every=timedelta(hours=1),
    past=timedelta(minutes=15),
    late=timedelta(hours=1),
)
MAINTAIN = Errand(
    "maintain",
    routes.MAINTAIN_QUEUE,
    routes.MAINTAIN_JOB,
    every=timedelta(days=1),
    past=timedelta(hours=4, minutes=5),
    late=timedelta(hours=6),
)
ERRANDS = (INDEX, CONSOLIDATE, MAINTAIN)


def latest(errand: Errand, now: datetime) -> datetime:
    """The last time, now included, at which the errand became due."""
    return _ORIGIN + errand.past + (now - _ORIGIN - errand.past) // errand.every * errand.every


def due(now: datetime, errands: Sequence[Errand] = ERRANDS) -> Sequence[Due]:
    """What is due; one that lies too far back is left to its next time."""
    found = [Due(errand, latest(errand, now)) for errand in errands]
    return [each for each in found if now - each.at <= each.errand.late]
