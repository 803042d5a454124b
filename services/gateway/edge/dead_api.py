"""What was given up: the list, one of them, once more, or never."""

from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.decide_dead import UNKNOWN, Terms, drop_dead, find_dead, retry_dead
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import scope_of
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.lucyd_dialect import dead_body
from services.gateway.rules.reply_shapes import DeadListReply, DeadReply, DroppedReply, Problem, RetriedReply
from shared.errors import LucydError, NotFound
from shared.ports.bus import WakeUps
from shared.ports.dead_letters import DeadLetter, DeadLetters
from shared.ports.runs import Inbox

TAG = "what was given up"


@dataclass(frozen=True, slots=True)
class DeadApi:
    """The routes under ``/api/v1/dead``."""

    dead: DeadLetters
    inbox: Inbox
    wake_ups: WakeUps
    bodies: Bodies
    terms: Terms

    def operations(self) -> list[Operation]:
        """What they do."""
        one, none = "/api/v1/dead/{id}", {404: Reply("there is no such thing, or it is another key's", Problem)}
        decided = {**none, 400: Reply("it was decided otherwise before, or is nothing to try again", Problem)}
        return [
            Operation(
                "GET", "/api/v1/dead", self.list, "admin", "what was given up",
                {200: Reply("all", DeadListReply)}, tag=TAG,
            ),
            Operation("GET", one, self.show, "admin", "one of them", {200: Reply("it", DeadReply), **none}, tag=TAG),
            Operation(
                "POST", f"{one}/retry", self.retry, "admin", "try it once more",
                {200: Reply("it is tried", RetriedReply), **decided}, counts_as="work", tag=TAG,
            ),
            Operation(
                "POST", f"{one}/drop", self.drop, "admin", "let it be",
                {200: Reply("it is let be", DroppedReply), **decided}, counts_as="work", tag=TAG,
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        """Those about which nobody has decided."""
        try:
            letters = await self.dead.open(scope_of(request.scope))
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"dead": [dead_body(letter) for letter in letters]})

    async def show(self, request: Request) -> Response:
        """One, decided or not."""
        try:
            return self.bodies.json(dead_body(await self._find(request)))
        except LucydError as fault:
            return self.bodies.error(fault)

    async def retry(self, request: Request) -> Response:
        """Once more."""
        try:
            letter = await self._find(request)
            run = await retry_dead(letter, dead=self.dead, inbox=self.inbox, wake_ups=self.wake_ups, terms=self.terms)
        except LucydError as fault:
            return self.bodies.error(fault)
        new = {"run_id": str(run)} if run is not None else {}
        return self.bodies.json({"retried": True, "id": str(letter.id), "kind": letter.kind, **new})

    async def drop(self, request: Request) -> Response:
        """Never."""
        try:
            letter = await self._find(request)
            await drop_dead(letter, dead=self.dead)
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"dropped": True, "id": str(letter.id), "kind": letter.kind})

    async def _find(self, request: Request) -> DeadLetter:
        try:
            id = UUID(request.path_params["id"])
        except ValueError as fault:
            raise NotFound(UNKNOWN) from fault
        return await find_dead(id, scope_of(request.scope), self.dead)
