"""Messages come in and outcomes are asked for, over Postgres: one function call each, one round trip, one commit."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.domain.attachment import blob_id
from shared.domain.consent import says_yes
from shared.domain.delivery import is_carried
from shared.domain.run import (
    PEOPLE,
    UNDERSTANDS,
    Accepted,
    CancelAnswer,
    Decision,
    NewRun,
    Question,
    message_document,
)
from shared.errors import Conflict, Full
from shared.ports.runs import FinishedRun, Reset

ACCEPT = f"select lucyd_accept_2({', '.join(['%s'] * 9)}, %s::jsonb, {', '.join(['%s'] * 12)})"
ACCEPT_WITH = (
    f"select lucyd_accept_3({', '.join(['%s'] * 9)}, %s::jsonb, {', '.join(['%s'] * 12)}, "
    "%s::uuid[], %s::text[], %s::text[], %s::boolean[], %b::bytea[])"
)
RESET = "select lucyd_reset_2(%s, %s, %s, %s, %s)"
RESET_RESTING = "select lucyd_reset_resting(%s, %s, %s, %s, %s, %s)"
CANCEL = "select lucyd_cancel(%s, %s, false)"
HANG_UP = "select lucyd_hang_up(%s, %s)"
DECIDE = "select lucyd_decide(%s, %s, %s, %s)"
QUESTIONS = """
select w.id, r.session, string_agg(a.question, e'\n' order by a.call_index),
       json_agg(json_build_array(a.id, a.tool) order by a.call_index)
from runs w join runs r on r.id = coalesce(w.merged_into, w.id) and r.state = 'waiting'
join approvals a on a.run = r.id and a.state = 'pending'
where w.id = any(%s) group by w.id, r.session
"""
OPEN_RUNS = "select principal, count(*) from runs where state in ('accepted', 'running', 'waiting') group by principal"
ADDS_NOTHING = """
select exists (select 1 from idempotency where scope = %s and key = %s and expires_at >= now())
  or %s and exists (select 1 from runs r join approvals a on a.run = r.id and a.state = 'pending'
                    where r.conversation = %s and r.state = 'waiting' and r.sender = %s)
"""
OUTCOMES = "select id, conversation, terminal, outcome from runs where id = any(%s) and finished_at is not null"
MANNERS = 2
"""The version of code that knows manners of waiting, channels that are carried, and webhooks."""

CONVERSATION = "select conversation from runs where id = %s"

ACCEPT_PATIENCE = timedelta(seconds=2)
ACCEPT_WITH_PATIENCE = timedelta(seconds=10)
"""Attachments take their time on the wire."""

COUNT_PATIENCE = timedelta(seconds=1)
"""A message waits for it, and is not to wait much longer than for its own accept."""

RESET_HERE = "The session was reset."


class PostgresInbox:
    """``Inbox`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def accept(self, new: NewRun) -> Accepted:
        """See ``Inbox.accept``."""
        key = new.idempotency
        document = message_document(new)
        with_blobs = "attachments" in document
        try:
            row = await self._database.value(
                ACCEPT_WITH if with_blobs else ACCEPT,
                (
                    new.id,
                    new.address.conversation,
                    new.address.channel,
                    new.address.principal,
                    new.address.contact,
                    new.kind,
                    new.source,
                    new.tier,
                    new.sender,
                    to_json(document),
                    new.when_busy,
                    _needs(new, with_blobs=with_blobs),
                    new.deadline,
                    key.scope if key else None,
                    key.key if key else None,
                    key.body_hash if key else None,
                    key.lives if key else None,
                    new.capacity,
                    new.traceparent,
                    new.webhook,
                    new.retry_of,
                    says_yes(new.text) if new.source in PEOPLE else None,
                    *(_blobs(new) if with_blobs else ()),
                ),
                patience=ACCEPT_WITH_PATIENCE if with_blobs else ACCEPT_PATIENCE,
            )
        except psycopg.Error as fault:
            match fault.sqlstate:
                case "LU001":
                    raise Full("too many messages wait in this conversation", after=5.0) from fault
                case "LU002":
                    raise Conflict("this idempotency key was used with another body") from fault
                case "LU003":
                    raise Conflict("the conversation is busy") from fault
            raise
        run = UUID(row["run"])
        return Accepted(
            run,
            new.address.conversation if run == new.id else await self._conversation_of(run, new),
            row["ordinal"],
            row["state"],
            row["created"],
            into=_id(row.get("into")),
            cancels=_id(row.get("cancels")),
        )

    async def _conversation_of(self, run: UUID, new: NewRun) -> str:
        """Of the run that a key found: who names no conversation would have begun another one."""
        return str(await self._database.value(CONVERSATION, (run,)) or new.address.conversation)

    async def open_runs(self) -> Mapping[str, int]:
        """See ``Inbox.open_runs``."""
        return dict(await self._database.rows(OPEN_RUNS, patience=COUNT_PATIENCE))

    async def adds_nothing(self, new: NewRun) -> bool:
        """See ``Inbox.adds_nothing``."""
        key, conversation = new.idempotency, new.address.conversation
        may_answer = new.kind == "message" and new.source in PEOPLE and new.when_busy != "interrupt"
        parameters = (key.scope if key else None, key.key if key else None, may_answer, conversation, new.sender)
        return bool(await self._database.value(ADDS_NOTHING, parameters))

    async def cancel(self, run: UUID, *, reason: str) -> CancelAnswer:
        """See ``Inbox.cancel``."""
        return await self._cancelled(CANCEL, run, reason)

    async def hang_up(self, run: UUID, *, reason: str) -> CancelAnswer:
        """See ``Inbox.hang_up``."""
        return await self._cancelled(HANG_UP, run, reason)

    async def _cancelled(self, query: str, run: UUID, reason: str) -> CancelAnswer:
        row = await self._database.value(query, (run, reason))
        return CancelAnswer(row["status"], _id(row.get("run")) or run, row.get("conversation", ""))

    async def decide(self, approval: UUID, *, allows: bool, answer: str, by: str) -> Decision:
        """See ``Inbox.decide``."""
        row = await self._database.value(DECIDE, (approval, allows, answer, by))
        return Decision(row["status"], _id(row.get("run")), row.get("conversation", ""))

    async def questions(self, runs: Sequence[UUID]) -> Sequence[Question]:
        """See ``Inbox.questions``."""
        return [
            Question(run, session, text, tuple((UUID(approval), tool) for approval, tool in asked))
            for run, session, text, asked in await self._database.rows(QUESTIONS, (list(runs),))
        ]

    async def outcomes(self, runs: Sequence[UUID]) -> Sequence[FinishedRun]:
        """See ``Inbox.outcomes``."""
        return [FinishedRun(*row) for row in await self._database.rows(OUTCOMES, (list(runs),))]

    async def reset(
        self, conversation: str, run: UUID, *, source: str, sender: str, rested: timedelta | None = None
    ) -> Reset | None:
        """See ``Inbox.reset``."""
        parameters = (conversation, run, source, sender, RESET_HERE)
        if rested is None:
            row = await self._database.value(RESET, parameters)
        else:
            row = await self._database.value(RESET_RESTING, (*parameters, rested))
        if not row["reset"]:
            return None
        return Reset(UUID(row["session"]), tuple(UUID(cancelled) for cancelled in row["cancelled"]))


def _id(value: str | None) -> UUID | None:
    return UUID(value) if value else None


def _blobs(new: NewRun) -> tuple[list[Any], ...]:
    """Columns of ``blobs``."""
    given = new.attachments
    return (
        [blob_id(new.id, position) for position in range(len(given))],
        [each.content_type for each in given],
        [each.filename for each in given],
        [each.is_voice for each in given],
        [each.data for each in given],
    )


def _needs(new: NewRun, *, with_blobs: bool) -> int:
    """Code of the first release neither carries anything out nor posts ends, and knows one manner of waiting; that of
    the release before shows no attachments and asks a model about everything."""
    if with_blobs or new.kind == "outbound":
        return UNDERSTANDS
    plain = new.when_busy == "queue" and new.webhook is None and not is_carried(new.address.channel)
    return 1 if plain else MANNERS
