"""Upkeep that somebody asks for: a compaction, an evolution, the end of sessions that rest."""

from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.intake import Intake
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.records_api import all_or_own, own
from services.gateway.rules.record_shapes import AutoResetReply, CompactReply
from services.gateway.rules.reply_shapes import Problem
from shared.domain.run import NewRun, Question
from shared.errors import LucydError
from shared.ids import new_id
from shared.ports.records import OpenSession, Records
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

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "POST", "/api/v1/compact", self.compact, "admin", "say the oldest part of the largest session shorter",
                {
                    200: Reply("it is done", CompactReply),
                    202: Reply("it is not done, and why", CompactReply),
                },
                counts_as="work", tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/evolve", self.evolve, "admin", "not there yet",
                {501: Reply("there is no such routine", Problem)}, counts_as="work", tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/sessions/auto-reset", self.auto_reset, "admin", "close sessions that rest",
                {200: Reply("how many were closed", AutoResetReply)}, counts_as="work", tag=TAG,
            ),
        ]  # fmt: skip

    async def compact(self, request: Request) -> Response:
        """Compact the largest session of the key, whatever its size, and wait for the end."""
        try:
            session = await self.records.largest(own(request))
            if session is None:
                return self.bodies.json({"status": "skipped", "reason": NO_SESSION}, 202)
            return await self._compact(session)
        except LucydError as fault:
            return self.bodies.error(fault)

    async def _compact(self, session: OpenSession) -> Response:
        manner = self.intake.manner
        new = NewRun(
            id=new_id(), address=session.address, text="", kind="compact", source="system", sender="system",
            deadline=manner.deadline, capacity=manner.capacity,
        )  # fmt: skip
        about = {"session": str(session.id), "run_id": str(new.id)}
        with self.waiting.expect(new.id) as expected:
            await self.intake.accept(new)
            outcome = await expected.outcome(within=manner.wait)
        if outcome is None or isinstance(outcome, Question):
            return self.bodies.json({"status": "running", "reason": GOES_ON, **about}, 202)
        if outcome.get("compacted"):
            return self.bodies.json({"status": "completed", "compacted": outcome["compacted"], **about})
        status = "skipped" if outcome.get("state") == "done" else "failed"
        reason = outcome.get("reason") or outcome.get("error") or "nothing was compacted"
        return self.bodies.json({"status": status, "reason": reason, **about}, 202)

    async def evolve(self, _: Request) -> Response:
        """The routine is not there: nothing is queued that nobody would do."""
        return self.bodies.json({"error": NO_EVOLUTION}, 501)

    async def auto_reset(self, request: Request) -> Response:
        """Close the sessions that rest; page after page, until none is left."""
        count = 0
        try:
            while page := await self.records.idle(
                all_or_own(request), longer_than=timedelta(minutes=self.idle_minutes), limit=MOST_AT_ONCE
            ):
                closed = [await self.inbox.reset(one, new_id(), source="http", sender="operator") for one in page]
                count += sum(reset is not None for reset in closed)
                if len(page) < MOST_AT_ONCE:
                    break
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"reset": count > 0, "count": count, "idle_minutes": self.idle_minutes})
