"""The two stores of runs that the contract is asked of, and how a test looks into them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from shared.adapters.inmemory.acts import InMemoryActs
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.adapters.inmemory.children import InMemoryChildren, spawning
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.fleet import InMemoryFleet
from shared.adapters.inmemory.inbox import InMemoryInbox
from shared.adapters.inmemory.messages import messaging, reacting
from shared.adapters.inmemory.prepared import InMemoryPreparedMessages
from shared.adapters.inmemory.reply_files import InMemoryReplyFiles, sending
from shared.adapters.inmemory.runs import InMemoryRuns
from shared.adapters.inmemory.tables import Tables, as_json
from shared.adapters.inmemory.transcripts import InMemoryTranscripts
from shared.adapters.postgres.acts import PostgresActs
from shared.adapters.postgres.blobs import PostgresBlobs
from shared.adapters.postgres.children import PostgresChildren
from shared.adapters.postgres.fleet import PostgresFleet
from shared.adapters.postgres.history import PostgresHistory
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.prepared import PostgresPreparedMessages
from shared.adapters.postgres.reply_files import PostgresReplyFiles
from shared.adapters.postgres.runs import PostgresRuns
from shared.domain.run import Accepted, AskedApproval, Claim, ClaimRefusal, Intent, Later, NewRun, Route, Stored, Write
from shared.ids import new_id
from shared.ports.acts import Acts
from shared.ports.blobs import Blobs
from shared.ports.children import Children
from shared.ports.fleet import Fleet
from shared.ports.history import Transcripts
from shared.ports.prepared import PreparedMessages
from shared.ports.reply_files import ReplyFiles
from shared.ports.runs import Cached, FinishedRun, Inbox, Runs
from tests.builders import CONVERSATION, ROUTES, call, identity, new_run, said, settlement, waiting, write

NO_TIME = timedelta(0)
ECHO = """
create function lucyd_act_echo(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
begin
  insert into echoes (said) values (p_arguments ->> 'text');
  return jsonb_build_object('text', (p_arguments ->> 'text') || ' of ' || (p_context ->> 'key'),
                            'wake', json_build_array('http:test:x'), 'nudge', json_build_array('telegram'));
end $$
"""
REFUSE = """
create function lucyd_act_refuse(p_context jsonb, p_arguments jsonb) returns jsonb language sql as $$
  select jsonb_build_object('error', 'not today')
$$
"""


@dataclass(frozen=True, slots=True)
class Booked:
    """A row of costs."""

    call_id: UUID
    cost: Decimal
    estimated: bool


@dataclass(frozen=True, slots=True)
class GoesOut:
    """A row of deliveries, in the order in which they are sent."""

    run: UUID | None
    ordinal: int
    part: int
    kind: str
    text: str
    file: Mapping[str, Any] | None = None
    reaction: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Posted:
    """A row of webhooks."""

    run: UUID
    target: str
    body: Mapping[str, Any]


class Memory(Transcripts, Protocol):
    """What can be read of runs in both stores."""

    async def said(self, run: UUID) -> Sequence[str]:
        """See ``History.said``."""
        ...


class World(ABC):
    """A store with one living worker, ``me``; more come with ``hire``."""

    def __init__(
        self,
        inbox: Inbox,
        runs: Runs,
        fleet: Fleet,
        transcripts: Memory,
        blobs: Blobs,
        *,
        acts: Acts,
        children: Children,
        prepared: PreparedMessages,
        reply_files: ReplyFiles,
    ) -> None:
        self.inbox = inbox
        self.runs = runs
        self.fleet = fleet
        self.transcripts = transcripts
        self.blobs = blobs
        self.acts = acts
        self.children = children
        self.prepared = prepared
        self.reply_files = reply_files
        self.me = new_id()

    async def hire(self) -> UUID:
        worker = identity()
        await self.fleet.register(worker)
        return worker.id

    @abstractmethod
    async def wait(self, seconds: float) -> None:
        """Let time pass for the store."""

    @abstractmethod
    async def booked(self) -> Sequence[Booked]:
        """All rows of costs, in the order of their call ids."""

    @abstractmethod
    async def open_reservations(self) -> set[UUID]:
        """Calls that money is set aside for."""

    @abstractmethod
    async def messages(self, session: UUID) -> Sequence[Mapping[str, Any]]:
        """What a session holds, dropped rows left out."""

    @abstractmethod
    async def beat(self, worker: UUID) -> None:
        """Raise a worker's beat."""

    @abstractmethod
    async def absolve(self, worker: UUID) -> None:
        """What a worker does that was counted as dead and finds itself alive."""

    @abstractmethod
    async def deliveries(self) -> Sequence[GoesOut]:
        """What goes out to channels."""

    @abstractmethod
    async def webhooks(self) -> Sequence[Posted]:
        """What is posted, by run."""

    @abstractmethod
    async def told(self, run: UUID) -> Sequence[Any]:
        """What was stored of the events of a run, by epoch and step."""

    @abstractmethod
    async def approvals(self, run: UUID) -> Sequence[str]:
        """How the questions of a run stand, in the order of their calls."""

    @abstractmethod
    async def demand(self, run: UUID, needs: int) -> None:
        """Let a run need this version of code, as a later release would."""

    @abstractmethod
    async def needs(self, run: UUID) -> int:
        """The version of code that a run needs."""

    @abstractmethod
    async def run_in(self, conversation: str) -> UUID:
        """The first run of a conversation."""

    @abstractmethod
    async def principals_of_costs(self) -> set[str]:
        """Who pays for what was booked."""

    @abstractmethod
    async def teach_acts(self) -> None:
        """From here on there are two acts, ``echo`` and ``refuse``."""

    @abstractmethod
    async def echoed(self) -> Sequence[str]:
        """What ``echo`` was told, in order."""

    @abstractmethod
    async def everything(self) -> Mapping[str, Any]:
        """All rows of all tables, to be compared."""

    async def accept(self, new: NewRun) -> Accepted:
        return await self.inbox.accept(new)

    async def ask(
        self,
        conversation: str = CONVERSATION,
        *,
        worker: UUID | None = None,
        call_id: UUID | None = None,
        cached: Cached | None = None,
        routes: dict[str, Route] | None = None,
        suspect: bool = True,
        alone: bool = False,
        debounce: float = 0,
    ) -> Claim | ClaimRefusal | Later:
        return await self.runs.claim(
            conversation,
            worker=worker or self.me,
            call_id=call_id or new_id(),
            routes=routes or ROUTES,
            cached=cached,
            suspect=suspect,
            alone=alone,
            debounce=timedelta(seconds=debounce),
        )

    async def claim(self, conversation: str = CONVERSATION, **manner: Any) -> Claim:
        got = await self.ask(conversation, **manner)
        assert isinstance(got, Claim), got
        return got

    async def written(self, claim: Claim, write: Write, *, worker: UUID | None = None) -> Stored:
        return await self.runs.store(claim.conversation, worker=worker or self.me, epoch=claim.epoch, write=write)

    async def store(self, claim: Claim, write: Write, *, worker: UUID | None = None) -> bool:
        """Whether the conversation is still this worker's."""
        return (await self.written(claim, write, worker=worker)).more

    async def ended(self, *runs: UUID) -> list[FinishedRun]:
        """Their ends, in the order of the question; all of them have ended."""
        found = {finished.run: finished for finished in await self.inbox.outcomes(runs)}
        return [found[run] for run in runs]

    async def fence(self, worker: UUID | None = None) -> Sequence[str] | None:
        return await self.fleet.fence(worker or self.me, beat=None, state="fenced")


class InMemoryWorld(World):
    """Over dictionaries; time passes when it is told to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.tables = Tables(self.clock)
        self._fleet = InMemoryFleet(self.tables)
        super().__init__(
            InMemoryInbox(self.tables),
            InMemoryRuns(self.tables),
            self._fleet,
            InMemoryTranscripts(self.tables),
            InMemoryBlobs(self.tables),
            acts=InMemoryActs(
                self.tables,
                {
                    "echo": self._echo,
                    "refuse": lambda context, _: {"error": "not today"},
                    "spawn": spawning(self.tables),
                    "message": messaging(self.tables),
                    "react": reacting(self.tables),
                    "send_file": sending(self.tables),
                },
            ),
            children=InMemoryChildren(self.tables),
            prepared=InMemoryPreparedMessages(self.tables),
            reply_files=InMemoryReplyFiles(self.tables),
        )
        self.echoes: list[str] = []

    def _echo(self, context: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.echoes.append(arguments["text"])
        return {"text": f"{arguments['text']} of {context['key']}", "wake": ["http:test:x"], "nudge": ["telegram"]}

    async def teach_acts(self) -> None:
        """The fake knows them by itself."""

    async def echoed(self) -> Sequence[str]:
        return self.echoes

    async def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def booked(self) -> Sequence[Booked]:
        rows = [Booked(row.call_id, row.cost, row.estimated) for row in self.tables.costs.values()]
        return sorted(rows, key=lambda row: row.call_id)

    async def open_reservations(self) -> set[UUID]:
        return {row.call_id for row in self.tables.reservations.values() if not row.settled}

    async def messages(self, session: UUID) -> Sequence[Mapping[str, Any]]:
        return [as_json(row.body) for row in self.tables.messages if row.session == session and not row.dropped]

    async def beat(self, worker: UUID) -> None:
        self._fleet.beat(worker)

    async def absolve(self, worker: UUID) -> None:
        await self._fleet.absolve(worker)

    async def deliveries(self) -> Sequence[GoesOut]:
        rows = [
            GoesOut(
                row.run,
                row.ordinal,
                row.part,
                row.kind,
                row.body["text"],
                row.body.get("file"),
                row.body.get("reaction"),
            )
            for row in self.tables.deliveries
        ]
        return sorted(rows, key=lambda row: (row.ordinal, row.part))

    async def webhooks(self) -> Sequence[Posted]:
        rows = [Posted(row.run, row.target, row.body) for row in self.tables.webhooks]
        return sorted(rows, key=lambda row: row.run)

    async def told(self, run: UUID) -> Sequence[Any]:
        steps = {(epoch, step): events for (its, step, epoch), events in self.tables.run_steps.items() if its == run}
        return [steps[key] for key in sorted(steps)]

    async def approvals(self, run: UUID) -> Sequence[str]:
        asked = [row for row in self.tables.approvals.values() if row.run == run]
        return [row.state for row in sorted(asked, key=lambda row: row.call_index)]

    async def demand(self, run: UUID, needs: int) -> None:
        self.tables.runs[run].needs = needs

    async def needs(self, run: UUID) -> int:
        return self.tables.runs[run].needs

    async def run_in(self, conversation: str) -> UUID:
        found = [row for row in self.tables.runs.values() if row.conversation == conversation]
        return min(found, key=lambda row: row.ordinal).id

    async def principals_of_costs(self) -> set[str]:
        return {row.principal for row in self.tables.costs.values()}

    async def everything(self) -> Mapping[str, Any]:
        return {name: repr(getattr(self.tables, name)) for name in self.tables.__slots__ if name != "clock"}


class PostgresWorld(World):
    """Over Postgres; time passes by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        super().__init__(
            PostgresInbox(database),
            PostgresRuns(database),
            PostgresFleet(database),
            PostgresHistory(database),
            PostgresBlobs(database),
            acts=PostgresActs(database),
            children=PostgresChildren(database),
            prepared=PostgresPreparedMessages(database),
            reply_files=PostgresReplyFiles(database),
        )

    async def teach_acts(self) -> None:
        await self._database.rows("create table echoes (position bigint generated always as identity, said text)")
        await self._database.rows(ECHO)
        await self._database.rows(REFUSE)

    async def echoed(self) -> Sequence[str]:
        return [row[0] for row in await self._database.rows("select said from echoes order by position")]

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def booked(self) -> Sequence[Booked]:
        rows = await self._database.rows("select call_id, cost, estimated from costs order by call_id")
        return [Booked(*row) for row in rows]

    async def open_reservations(self) -> set[UUID]:
        rows = await self._database.rows("select call_id from reservations where settled_at is null")
        return {row[0] for row in rows}

    async def messages(self, session: UUID) -> Sequence[Mapping[str, Any]]:
        query = "select body from messages where session = %s and not dropped order by ordinal"
        return [row[0] for row in await self._database.rows(query, (session,))]

    async def beat(self, worker: UUID) -> None:
        await self._database.rows("update workers set beat = beat + 1 where id = %s", (worker,))

    async def absolve(self, worker: UUID) -> None:
        await self._database.value("select lucyd_absolve(%s)", (worker,))

    async def deliveries(self) -> Sequence[GoesOut]:
        query = (
            "select run, ordinal, part, kind, body ->> 'text', body -> 'file', body -> 'reaction' from deliveries"
            " order by ordinal, part"
        )
        return [GoesOut(*row) for row in await self._database.rows(query)]

    async def webhooks(self) -> Sequence[Posted]:
        return [
            Posted(*row) for row in await self._database.rows("select run, target, body from webhooks order by run")
        ]

    async def told(self, run: UUID) -> Sequence[Any]:
        query = "select events from run_steps where run = %s order by epoch, step"
        return [row[0] for row in await self._database.rows(query, (run,))]

    async def approvals(self, run: UUID) -> Sequence[str]:
        query = "select state from approvals where run = %s order by call_index"
        return [row[0] for row in await self._database.rows(query, (run,))]

    async def demand(self, run: UUID, needs: int) -> None:
        await self._database.rows("update runs set needs = %s where id = %s", (needs, run))

    async def needs(self, run: UUID) -> int:
        return int(await self._database.value("select needs from runs where id = %s", (run,)))

    async def run_in(self, conversation: str) -> UUID:
        query = "select id from runs where conversation = %s order by ordinal limit 1"
        found: UUID = await self._database.value(query, (conversation,))
        return found

    async def principals_of_costs(self) -> set[str]:
        return {row[0] for row in await self._database.rows("select distinct principal from costs")}

    async def everything(self) -> Mapping[str, Any]:
        query = "select tablename from pg_tables where schemaname = 'public' order by tablename"
        tables = [row[0] for row in await self._database.rows(query)]
        return {name: await self._database.rows(f"select t::text from {name} t order by 1") for name in tables}  # noqa: S608


async def with_tools_open(world: World) -> Claim:
    """A run whose answer asked for one act and one look; both are still open."""
    await world.accept(new_run())
    claim = await world.claim()
    calls = [call("exec", "c1", command="ls"), call("read", "c2")]
    intent = Intent(0, "c1", "exec", "once", "ab" * 32, {"before": "x"})
    first = write(
        claim, messages=[said("a look", *calls)], settle=settlement(claim), intents=[intent], step=1, stage="tools"
    )
    assert await world.store(claim, replace(first, keep=f"{claim.epoch}-7"))
    return claim


async def with_question(world: World, new: NewRun | None = None, *approvals: AskedApproval, **wait: Any) -> Claim:
    """A run that waits for a person to allow what its answer asked for; ``wait`` are fields of ``Waiting``."""
    new = new or new_run()
    await world.accept(new)
    claim = await world.claim(new.address.conversation)
    calls = [call("exec", f"c{index}") for index in range(max(1, len(approvals)))]
    await world.store(claim, write(claim, messages=[said("", *calls)], settle=settlement(claim), step=1, stage="tools"))
    await world.store(claim, write(claim, waiting=waiting(*approvals, **wait)))
    return claim


async def killed(world: World, conversation: str, times: int) -> None:
    """So many processes die with the run in hand."""
    for _ in range(times):
        worker = await world.hire()
        await world.claim(conversation, worker=worker, alone=True)
        await world.fence(worker)
