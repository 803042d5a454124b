"""Sessions: the list, what was said in one, and the reset."""

from dataclasses import dataclass
from typing import Any, TypedDict
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import SMALL_BODY, Bodies, read_json
from services.gateway.edge.door import scope_of
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.repeats import Answered, Repeats
from services.gateway.rules.chat_request import UNFIT, HistoryQuery, ResetBody, read_reset_target
from services.gateway.rules.lucyd_dialect import history_events, session_body
from services.gateway.rules.reply_shapes import HistoryReply, ResetReply, SessionsReply
from shared.errors import LucydError
from shared.ids import new_id
from shared.ports.history import History
from shared.ports.records import Records
from shared.ports.records import Whose as RecordsOf
from shared.ports.runs import Inbox, Reset

TAG = "sessions"


class Whose(TypedDict):
    """Whose sessions a request may see, as ``History`` takes it."""

    principal: str | None
    keyless: bool


USER = "user"
YES = frozenset({"true", "1", "yes"})


@dataclass(frozen=True, slots=True)
class SessionApi:
    """The routes under ``/api/v1/sessions``. ``context_limit`` is the primary model's window in tokens; ``user`` is how
    the one person that the agent lives with is called, for whom ``user`` stands in a reset."""

    history: History
    inbox: Inbox
    bodies: Bodies
    context_limit: int
    records: Records
    repeats: Repeats
    user: str

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/api/v1/sessions", self.sessions, "read", "open sessions",
                {200: Reply("at most 200", SessionsReply)}, tag=TAG,
            ),
            Operation(
                "POST", "/api/v1/sessions/reset", self.reset, "chat", "close sessions",
                {200: Reply("what was closed", ResetReply)}, body=ResetBody, counts_as="work",
                repeatable=True, tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/sessions/{id}/history", self.messages, "read", "what was said in a session",
                {200: Reply("its events; none for an id that nobody knows", HistoryReply)}, query=HistoryQuery, tag=TAG,
            ),
        ]  # fmt: skip

    async def sessions(self, request: Request) -> Response:
        """Open sessions."""
        try:
            sessions = await self.history.sessions(**_whose(request))
        except LucydError as fault:
            return self.bodies.error(fault)
        shown = [session_body(session, context_limit=self.context_limit) for session in sessions]
        return self.bodies.json({"sessions": shown})

    async def messages(self, request: Request) -> Response:
        """Events of one session; an unknown id gives an empty list, as in the original."""
        identifier = request.path_params["id"]
        full = request.query_params.get("full", "").lower() in YES
        try:
            session = await self._session(request, identifier)
            rows = await self.history.messages(session, **_whose(request)) if session is not None else ()
        except LucydError as fault:
            return self.bodies.error(fault)
        found = str(session) if session is not None else identifier
        return self.bodies.json({"session_id": found, "events": history_events(rows, full=full)})

    async def _session(self, request: Request, name: str) -> UUID | None:
        """A session by its id, or the open one of a contact; upper and lower case are one."""
        try:
            return UUID(name)
        except ValueError:
            known = UNFIT.search(name) is None
            return await self.records.session_of(name, RecordsOf(**_whose(request))) if known else None

    async def reset(self, request: Request) -> Response:
        """Close open sessions by target: ``all``, ``user``, a contact, a conversation key or a session id."""
        try:
            body = await read_json(request, at_most=SMALL_BODY)
            target = read_reset_target(body)

            async def close(_: UUID | None) -> Answered:
                return Answered(await self._closed(request, target))

            return await self.repeats.once(request, body, close)
        except LucydError as fault:
            return self.bodies.error(fault)

    async def _closed(self, request: Request, target: str) -> dict[str, Any]:
        if target == "all":
            return {"reset": True, "target": target, "count": await self._close_all(request)}
        named = self.user if target == USER else target
        found = await self.history.session_contacts(named, **_whose(request))
        closed = [reset for conversation in found if (reset := await self._close(conversation)) is not None]
        if not closed:
            return {"reset": False, "reason": f"no session found for: {target}"}
        if target == USER:
            return {"reset": True, "target": target, "count": len(closed)}
        kind = "session_id" if target == str(closed[0].session) else "contact"
        return {"reset": True, "target": target, "type": kind, "count": len(closed)}

    async def _close_all(self, request: Request) -> int:
        """How many were closed. One page after the other; a session that was opened meanwhile may be closed as well."""
        count, met = 0, set[UUID]()
        while page := [one for one in await self.history.sessions(**_whose(request)) if one.id not in met]:
            met.update(one.id for one in page)
            done = [await self._close(one.conversation) for one in page]
            count += sum(reset is not None for reset in done)
        return count

    async def _close(self, conversation: str) -> Reset | None:
        return await self.inbox.reset(conversation, new_id(), source="http", sender="operator")


def _whose(request: Request) -> Whose:
    scope = scope_of(request.scope)
    return {"principal": scope.principal, "keyless": scope.keyless}
