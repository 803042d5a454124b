"""Upkeep that somebody asks for: a compaction, an evolution, the end of sessions that rest."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.intake import Intake
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.records_api import all_or_own, own
from services.gateway.edge.repeats import Answered, Repeats, Work, read_wishes
from services.gateway.rules.job_request import NoWishes
from services.gateway.rules.record_shapes import AutoResetReply, CompactReply
from services.gateway.rules.reply_shapes import Problem
from services.gateway.rules.request_body import read_as
from shared.domain.run import Address, NewRun, Question
from shared.errors import LucydError
from shared.ids import new_id
from shared.ports.history import History
from shared.ports.records import Records
from shared.ports.runs import Inbox

TAG = "upkeep"
MOST_AT_ONCE = 200
NO_EVOLUTION = "There is no evolution routine in this version."
NO_SESSION = "there is no session to compact"
GOES_ON = "it is still going on"


@dataclass(frozen=True, slots=True)
class UpkeepApi:
    """``/api/v1/compact``, ``/api/v1/evolve`` and ``/api/v1/sessions/auto-reset``."""

    intake: Intake
    inbox: Inbox
    waiting: WaitingRoom
    records: Records
    bodies: Bodies
    idle_minutes: int
    history: History
    repeats: Repeats

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "POST", "/api/v1/compact", self.compact, "admin", "say the oldest part of the largest session shorter",
                {
                    200: Reply("it is done", CompactReply),
                    202: Reply("it is not done, and why", CompactReply),
                },
                body=NoWishes, may_be_empty=True, counts_as="work", repeatable=True, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/evolve", self.evolve, "admin", "not there yet",
                {503: Reply("there is no such routine", Problem)}, counts_as="work", tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/sessions/auto-reset", self.auto_reset, "admin", "close sessions that rest",
                {200: Reply("how many were closed", AutoResetReply)},
                body=NoWishes, may_be_empty=True, counts_as="work", repeatable=True, tag=TAG,
            ),
        ]  # fmt: skip

    async def compact(self, request: Request) -> Response:
        """Compact the largest session of the key, whatever its size, and wait for the end."""

        async def compact(work: UUID | None) -> Answered:
            begun = await self.history.run(work) if work is not None else None
            if begun is not None:
                return await self._compacted(begun.id, begun.session)
            session = await self.records.largest(own(request))
            if session is None:
                return Answered({"status": "skipped", "reason": NO_SESSION}, 202)
            return await self._compacted(work or new_id(), session.id, session.address)

        return await self._once(request, compact)

    async def _compacted(self, run: UUID, session: UUID | None, address: Address | None = None) -> Answered:
        """What comes of the run; with ``address`` it is begun there."""
        manner = self.intake.manner
        with self.waiting.expect(run) as expected:
            if address is not None:
                await self.intake.accept(
                    NewRun(
                        id=run, address=address, text="", kind="compact", source="system", sender="system",
                        deadline=manner.deadline, capacity=manner.capacity,
                    )
                )  # fmt: skip
            else:  # it may have ended long ago
                self.waiting.look_again(run)
            outcome = await expected.outcome(within=manner.wait)
        about = {"session": await self._session_of(run, session), "run_id": str(run)}
        if outcome is None or isinstance(outcome, Question):
            return Answered({"status": "running", "reason": GOES_ON, **about}, 202, is_last=False)
        if outcome.get("compacted"):
            return Answered({"status": "completed", "compacted": outcome["compacted"], **about})
        status = "skipped" if outcome.get("state") == "done" else "failed"
        reason = outcome.get("reason") or outcome.get("error") or "nothing was compacted"
        return Answered({"status": status, "reason": reason, **about}, 202)

    async def _session_of(self, run: UUID, chosen: UUID | None) -> str | None:
        """Whose the run is, is known once it has begun: another request under this key may have chosen before us."""
        begun = await self.history.run(run)
        session = begun.session if begun is not None and begun.session is not None else chosen
        return str(session) if session else None

    async def _once(self, request: Request, work: Work) -> Response:
        try:
            body = await read_wishes(request)
            read_as(NoWishes, body)
            return await self.repeats.once(request, body, work)
        except LucydError as fault:
            return self.bodies.error(fault)

    async def evolve(self, _: Request) -> Response:
        """The routine is not there: nothing is queued that nobody would do."""
        return self.bodies.json({"error": NO_EVOLUTION}, 503)

    async def auto_reset(self, request: Request) -> Response:
        """Close the sessions that rest; page after page, until none is left."""

        async def close(_: UUID | None) -> Answered:
            count, whose, rested = 0, all_or_own(request), timedelta(minutes=self.idle_minutes)
            while page := await self.records.idle(whose, longer_than=rested, limit=MOST_AT_ONCE):
                closed = [await self._close(conversation, rested) for conversation in page]
                count += sum(closed)
                if len(page) < MOST_AT_ONCE or not any(closed):
                    break
            return Answered({"reset": count > 0, "count": count, "idle_minutes": self.idle_minutes})

        return await self._once(request, close)

    async def _close(self, conversation: str, rested: timedelta) -> bool:
        """Whether it was closed: since it was found resting, a message may have come."""
        reset = await self.inbox.reset(conversation, new_id(), source="http", sender="operator", rested=rested)
        return reset is not None
