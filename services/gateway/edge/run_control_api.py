"""What may be done to a run under way: end it, or answer what it asks."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.edge.bodies import SMALL_BODY, Bodies, read_json
from services.gateway.edge.door import key_of, scope_of
from services.gateway.edge.operation import ID, RUN_PARTS, Operation, Reply
from services.gateway.rules.chat_request import DecisionBody, read_decision
from services.gateway.rules.lucyd_dialect import run_body
from services.gateway.rules.reply_shapes import DecisionReply, Problem, RunReply
from shared.actions.cancel_run import cancel_run
from shared.errors import BadInput, Conflict, LucydError, NotFound, TryLater
from shared.ports.bus import WakeUp, WakeUps
from shared.ports.control import Control
from shared.ports.history import History, StoredRun
from shared.ports.runs import Inbox

ENDS_WITHIN = timedelta(seconds=10)
"""Longer than a run takes that has to be ended over its worker's head."""


@dataclass(frozen=True, slots=True)
class RunControlApi:
    """``/api/v1/runs/{id}/cancel`` and ``/api/v1/runs/{id}/approvals/{approval}``."""

    inbox: Inbox
    history: History
    control: Control
    wake_ups: WakeUps
    waiting: WaitingRoom
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        none = {404: Reply("no such run, or no such question", Problem)}
        return [
            Operation(
                "POST", "/api/v1/runs/{id}/cancel", self.cancel, "chat", "end a run",
                {
                    200: Reply("its end is stored", RunReply),
                    202: Reply("the cancel is stored, its end not yet", RunReply),
                    **none,
                },
                parts=RUN_PARTS, counts_as="work",
            ),
            Operation(
                "POST", "/api/v1/runs/{id}/approvals/{approval}", self.decide, "chat",
                "allow or deny what a run asks about",
                {
                    200: Reply("what was decided", DecisionReply),
                    **none,
                    409: Reply("somebody was quicker", Problem),
                },
                body=DecisionBody, parts={**RUN_PARTS, "approval": ID}, counts_as="work",
            ),
        ]  # fmt: skip

    async def cancel(self, request: Request) -> Response:
        """End a run, and answer when its end is stored: 200 with the run, 202 when that takes longer than usual."""
        try:
            run = await self._find(request)
            with self.waiting.expect(run.id) as expected:
                answer = await cancel_run(run.id, inbox=self.inbox, control=self.control, wake_ups=self.wake_ups)
                if answer.status in {"ended", "cancelled"}:
                    self.waiting.look_again(run.id)
                over = await expected.end(within=ENDS_WITHIN)
            body = run_body(await self._find(request))
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(body, 200 if over else 202)

    async def decide(self, request: Request) -> Response:
        """Allow or deny one call that a run asks about. Each question is answered once."""
        try:
            run = await self._find(request)
            allows, answer = read_decision(await read_json(request, at_most=SMALL_BODY))
            approval = _identifier(request.path_params["approval"], "an approval")
            asked = [one for question in await self.inbox.questions([run.id]) for one, _ in question.approvals]
            if approval not in asked:
                raise NotFound("this run asks no such question, or it was answered")
            decision = await self.inbox.decide(approval, allows=allows, answer=answer, by=key_of(request).name)
            if decision.status in {"unknown", "gone"}:
                raise Conflict("this question was answered before")
            if decision.status == "resumed":
                await self._wake(decision.conversation)
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"run_id": str(run.id), "approval_id": str(approval), "allowed": allows})

    async def _wake(self, conversation: str) -> None:
        try:
            await self.wake_ups.wake([WakeUp(conversation)])
        except TryLater:
            return  # the sweep finds it

    async def _find(self, request: Request) -> StoredRun:
        run = await self.history.run(_identifier(request.path_params["id"], "a run"))
        if run is None or not scope_of(request.scope).covers(run.principal):
            raise NotFound("no such run")
        return run


def _identifier(text: str, what: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as fault:
        raise BadInput(f"{what} is named by its id") from fault
