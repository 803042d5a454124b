"""The workers' rows, and the beat that keeps one of them alive from a thread of its own."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID

import psycopg

from shared.adapters.postgres.pool import Database, conninfo
from shared.ports.fleet import Identity, Peer

REGISTER = """
insert into workers (id, service, host, boot_id, pid, pid_started, version) values (%s, %s, %s, %s, %s, %s, %s)
on conflict (id) do nothing
"""
PEERS = """
select id, service, host, boot_id, pid, pid_started, version, beat from workers where state in ('alive', 'draining')
"""
FENCE = "select lucyd_fence_2(%s, %s, %s, %s)"
ABSOLVE = "select lucyd_absolve(%s)"
DRAIN = "update workers set state = 'draining' where id = %s and state = 'alive'"
BEAT = """
update workers set beat = beat + 1, beat_at = now() where id = %s and state in ('alive', 'draining') returning beat
"""
SAID_GOODBYE = "select from workers where id = %s and state = 'stopped'"

BEAT_EVERY = timedelta(seconds=2)
BUSY = timedelta(seconds=2.2)
"""Of processor time since the last beat: more than a process has used that was stopped within two seconds of it."""

KILLED_FOUR = "Four processes died while they worked on this message, so it was given up."


class PostgresFleet:
    """``Fleet`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, identity: Identity) -> None:
        """See ``Fleet.register``."""
        await self._database.rows(
            REGISTER,
            (
                identity.id,
                identity.service,
                identity.host,
                identity.boot_id,
                identity.pid,
                identity.pid_started,
                identity.version,
            ),
            patience=timedelta(seconds=30),
        )

    async def peers(self) -> Sequence[Peer]:
        """See ``Fleet.peers``."""
        return [Peer(Identity(*row[:7]), row[7]) for row in await self._database.rows(PEERS)]

    async def fence(
        self, worker: UUID, *, beat: int | None, state: Literal["fenced", "stopped"]
    ) -> Sequence[str] | None:
        """See ``Fleet.fence``."""
        freed: Sequence[str] | None = await self._database.value(FENCE, (worker, beat, state, KILLED_FOUR))
        return freed

    async def drain(self, worker: UUID) -> None:
        """See ``Fleet.drain``."""
        await self._database.rows(DRAIN, (worker,))


class Beat:
    """When this worker was last known to be alive; read by whoever is about to act outside."""

    def __init__(self) -> None:
        self._confirmed_at = time.monotonic()

    def confirm(self, at: float) -> None:
        """The beat sent at monotonic ``at`` has found a living row."""
        self._confirmed_at = at

    @property
    def age(self) -> timedelta:
        """How long ago the last confirmed beat was sent."""
        return timedelta(seconds=time.monotonic() - self._confirmed_at)


@contextlib.contextmanager
def beating(url: str, worker: UUID, *, on_fenced: Callable[[], None]) -> Iterator[Beat]:
    """Raise the worker's beat every two seconds from a thread that no tool and no event loop can hold up.

    ``on_fenced`` is called in that thread, once, when the row is no longer a living one.
    """
    beat = Beat()
    stop = threading.Event()
    thread = threading.Thread(target=_beat, args=(url, worker, beat, stop, on_fenced), name="beat", daemon=True)
    thread.start()
    try:
        yield beat
    finally:
        stop.set()
        thread.join(timeout=5)


def _beat(url: str, worker: UUID, beat: Beat, stop: threading.Event, on_fenced: Callable[[], None]) -> None:
    connection: psycopg.Connection | None = None
    pause = 0.0
    worked = time.process_time()
    while not stop.wait(pause):
        sent_at = time.monotonic()
        try:
            if connection is None:
                connection = psycopg.connect(conninfo(url, application="lucyd beat"), autocommit=True)
            row = connection.execute(BEAT, (worker,)).fetchone()
            if row is None and connection.execute(SAID_GOODBYE, (worker,)).fetchone() is not None:
                break  # it is on its way out, and nobody has fenced it
        except psycopg.OperationalError:
            # Postgres is away or the line broke: the age of the last beat says so to those who ask.
            with contextlib.suppress(psycopg.Error):
                if connection is not None:
                    connection.close()
            connection = None
            pause = 0.2
            continue
        if row is None:
            # This process was stopped and not killed: what it had in hand is not to blame. In vain, the blame stays. It
            # also stays when the process was not stopped but busy: something in hand kept this thread from beating.
            if time.process_time() - worked < BUSY.total_seconds():
                with contextlib.suppress(psycopg.Error):
                    connection.execute(ABSOLVE, (worker,))
            on_fenced()
            break
        beat.confirm(sent_at)
        worked = time.process_time()
        pause = BEAT_EVERY.total_seconds()
    if connection is not None:
        connection.close()
