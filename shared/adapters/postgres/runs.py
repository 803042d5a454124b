"""The four transactions over Postgres: one function call each, one round trip, one commit."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg

from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.rows import settlement_document, write_document
from shared.domain.attachment import blob_id
from shared.domain.chat import Message
from shared.domain.consent import says_yes
from shared.domain.delivery import is_carried
from shared.domain.money import Usage
from shared.domain.run import (
    PEOPLE,
    UNDERSTANDS,
    Accepted,
    CancelAnswer,
    Claim,
    ClaimRefusal,
    Decision,
    Later,
    NewRun,
    Question,
    Route,
    Session,
    Settlement,
    Spent,
    Stored,
    StoredApproval,
    StoredEffect,
    StoredMessage,
    Write,
    message_document,
)
from shared.errors import Conflict, Full, LostClaim
from shared.ids import new_id
from shared.ports.runs import Cached, FinishedRun, Reset

ACCEPT = f"select lucyd_accept_2({', '.join(['%s'] * 9)}, %s::jsonb, {', '.join(['%s'] * 12)})"
ACCEPT_WITH = (
    f"select lucyd_accept_3({', '.join(['%s'] * 9)}, %s::jsonb, {', '.join(['%s'] * 12)}, "
    "%s::uuid[], %s::text[], %s::text[], %s::boolean[], %b::bytea[])"
)
CLAIM = "select lucyd_claim_2(%s, %s, %s, %s, %s, %s::jsonb, %s, %s, %s, %s, %s, %s)"
STORE = "select lucyd_store_2(%s, %s, %s, %s::jsonb)"
SETTLE = "select lucyd_settle(%s::jsonb)"
HAND_BACK = "select lucyd_hand_back_2(%s, %s, %s, %s)"
RESET = "select lucyd_reset_2(%s, %s, %s, %s, %s)"
RESET_RESTING = "select lucyd_reset_resting(%s, %s, %s, %s, %s, %s)"
EXPIRE = "select lucyd_expire_2(%s, %s)"
CANCEL = "select lucyd_cancel(%s, %s, false)"
HANG_UP = "select lucyd_hang_up(%s, %s)"
CANCEL_OVERDUE = "select lucyd_cancel_overdue(%s, %s)"
DECIDE = "select lucyd_decide(%s, %s, %s, %s)"
QUESTIONS = """
select w.id, r.session, string_agg(a.question, e'\n' order by a.call_index),
       json_agg(json_build_array(a.id, a.tool) order by a.call_index)
from runs w join runs r on r.id = coalesce(w.merged_into, w.id) and r.state = 'waiting'
join approvals a on a.run = r.id and a.state = 'pending'
where w.id = any(%s) group by w.id, r.session
"""
CANCELS = """
select held.key, coalesce(r.cancel_reason, '') from unnest(%s::text[], %s::bigint[]) as held (key, epoch)
join runs r on r.conversation = held.key and r.epoch = held.epoch and r.state = 'running'
where r.cancel_asked_at is not null
"""
OPEN_RUNS = "select principal, count(*) from runs where state in ('accepted', 'running', 'waiting') group by principal"
ADDS_NOTHING = """
select exists (select 1 from idempotency where scope = %s and key = %s and expires_at >= now())
  or %s and exists (select 1 from runs r join approvals a on a.run = r.id and a.state = 'pending'
                    where r.conversation = %s and r.state = 'waiting' and r.sender = %s)
"""
OUTCOMES = "select id, conversation, terminal, outcome from runs where id = any(%s) and finished_at is not null"
UNPUBLISHED = """
select id, conversation, terminal, outcome from runs
where published_at is null and (finished_at < now() - %s or finished_at > now() + interval '1 minute')
order by finished_at limit %s
"""
PUBLISHED = """
with refilled as (select updated_at from settings where key = 'redis_refilled' for share)
update runs set published_at = now() where id = any(%s) and published_at is null
  and not exists (select 1 from refilled where updated_at >= now() - %s)
"""
# The share keeps this and TELLS_AGAIN apart: who notes before is seen by what is told again, who notes after
# sees that it is.
# The ids of runs are UUIDv7: their order is that of acceptance, and their index serves for "lately".
OVERTAKEN = """
select c.key from unnest(%s::text[], %s::bigint[]) as held (key, epoch) join conversations c on c.key = held.key
where c.epoch > held.epoch and c.owner is distinct from %s
"""
TELLS_AGAIN = """
insert into settings (key, value) values ('redis_refilled', 'true') on conflict (key) do update set updated_at = now()
"""
TELL_AGAIN = """
with again as (
  update runs set published_at = null
    where id > (lpad(to_hex((extract(epoch from now() - %s) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
      and finished_at > now() - %s and published_at is not null and kind <> 'reset' returning 1
)
select count(*) from again
"""
MANNERS = 2
"""The version of code that knows manners of waiting, channels that are carried, and webhooks."""

LONGEST_RUN = timedelta(days=1)
"""How long before its end a run may have been accepted to be told again."""

# What processes died with comes last: one is taken at a time, and the others must not crowd out the rest.
# Each conversation is looked at once, however many of its messages stand in line.
ORPHANS = """
select o.conversation from (
  select r.conversation, max(r.suspected) as suspected, min(r.accepted_at) as since from runs r
  where (r.state in ('accepted', 'running') or (r.state = 'waiting' and r.wake_at < now()))
    and (r.accepted_at < now() - %s or r.accepted_at > now() + interval '1 minute') and r.needs <= %s
    and r.principal <> all(%s)
  group by r.conversation
) o join conversations c on c.key = o.conversation
where (c.owner is null or (c.owner = %s and not c.key = any(%s))
       or exists (select 1 from workers w where w.id = c.owner and w.state in ('fenced', 'stopped')))
  and not exists (select 1 from runs h where h.conversation = o.conversation and h.state = 'waiting'
                  and (h.wake_at is null or h.wake_at > now()))
order by o.suspected >= 2, o.since limit %s
"""
CONVERSATION = "select conversation from runs where id = %s"
PRINCIPALS = "select key, principal from conversations where key = any(%s)"

ACCEPT_PATIENCE = timedelta(seconds=2)
ACCEPT_WITH_PATIENCE = timedelta(seconds=10)
"""Attachments take their time on the wire."""

CLAIM_PATIENCE = timedelta(seconds=2)
COUNT_PATIENCE = timedelta(seconds=1)
"""A message waits for it, and is not to wait much longer than for its own accept."""

TELL_AGAIN_PATIENCE = timedelta(seconds=30)
"""It touches every run that ended in the last hour."""

STORE_PATIENCE = timedelta(seconds=60)
"""A step that was paid for is worth waiting for; the epoch tells afterwards whether it may still be stored."""

DEADLINE_PASSED = "This took longer than it may, and was stopped."
RESET_HERE = "The session was reset."


class PostgresRuns:
    """``Inbox`` and ``Runs`` of the ports."""

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

    async def claim(
        self,
        conversation: str,
        *,
        worker: UUID,
        call_id: UUID,
        routes: Mapping[str, Route],
        cached: Cached | None,
        suspect: bool = True,
        alone: bool = False,
        debounce: timedelta = timedelta(0),
    ) -> Claim | ClaimRefusal | Later:
        """See ``Runs.claim``."""
        route_document = to_json(
            {
                name: {"model": route.model, "worst_case": str(route.worst_case), "currency": route.currency}
                for name, route in routes.items()
            }
        )
        row = await self._database.value(
            CLAIM,
            (
                worker,
                conversation,
                call_id,
                new_id(),
                UNDERSTANDS,
                route_document,
                cached.session if cached else None,
                cached.ordinal if cached else None,
                cached.live_from if cached else None,
                suspect,
                alone,
                debounce,
            ),
            patience=CLAIM_PATIENCE,
        )
        if row["status"] == "later":
            return Later(timedelta(seconds=row["seconds"]))
        if row["status"] != "claimed":
            refusal: ClaimRefusal = row["status"]
            return refusal
        return _claim(conversation, call_id, row)

    async def store(self, conversation: str, *, worker: UUID, epoch: int, write: Write) -> Stored:
        """See ``Runs.store``."""
        row = await self._database.value(
            STORE, (worker, conversation, epoch, to_json(write_document(write))), patience=STORE_PATIENCE
        )
        if row["status"] == "lost":
            raise LostClaim(conversation)
        followers = tuple(UUID(run) for run in row.get("followers") or ())
        return Stored(bool(row["more"]), row.get("absorbed") or (), row.get("outcome"), followers)

    async def settle(self, settlement: Settlement) -> None:
        """See ``Runs.settle``."""
        await self._database.rows(SETTLE, (to_json(settlement_document(settlement)),), patience=STORE_PATIENCE)

    async def hand_back(self, conversation: str, *, worker: UUID, epoch: int, unbegun: bool = False) -> bool:
        """See ``Runs.hand_back``."""
        return bool(await self._database.value(HAND_BACK, (worker, conversation, epoch, unbegun)))

    async def orphans(
        self,
        *,
        older_than: timedelta,
        limit: int,
        worker: UUID | None = None,
        in_hand: Sequence[str] = (),
        full: Sequence[str] = (),
    ) -> Sequence[str]:
        """See ``Runs.orphans``."""
        parameters = (older_than, UNDERSTANDS, list(full), worker, list(in_hand), limit)
        return [row[0] for row in await self._database.rows(ORPHANS, parameters)]

    async def principals(self, conversations: Sequence[str]) -> Mapping[str, str]:
        """See ``Runs.principals``."""
        return dict(await self._database.rows(PRINCIPALS, (list(conversations),)))

    async def overtaken(self, epochs: Mapping[str, int], *, worker: UUID) -> Sequence[str]:
        """See ``Runs.overtaken``."""
        parameters = (list(epochs), list(epochs.values()), worker)
        return [row[0] for row in await self._database.rows(OVERTAKEN, parameters)]

    async def cancels(self, epochs: Mapping[str, int]) -> Mapping[str, str]:
        """See ``Runs.cancels``."""
        return dict(await self._database.rows(CANCELS, (list(epochs), list(epochs.values()))))

    async def cancel_overdue(self, *, older_than: timedelta, limit: int) -> Sequence[tuple[UUID, str]]:
        """See ``Runs.cancel_overdue``."""
        ended = await self._database.value(CANCEL_OVERDUE, (older_than, limit))
        return [(UUID(run), conversation) for run, conversation in ended]

    async def unpublished(self, *, older_than: timedelta, limit: int) -> Sequence[FinishedRun]:
        """See ``Runs.unpublished``."""
        return [FinishedRun(*row) for row in await self._database.rows(UNPUBLISHED, (older_than, limit))]

    async def published(self, runs: Sequence[UUID], *, told_within: timedelta) -> None:
        """See ``Runs.published``."""
        await self._database.rows(PUBLISHED, (list(runs), told_within))

    async def tell_again(self, *, ended_within: timedelta) -> int:
        """See ``Runs.tell_again``."""
        await self._database.rows(TELLS_AGAIN, ())
        # A statement of its own: it must see what was noted as told until the one before could go on.
        count: int = await self._database.value(
            TELL_AGAIN, (ended_within + LONGEST_RUN, ended_within), patience=TELL_AGAIN_PATIENCE
        )
        return count

    async def expire(self, *, limit: int) -> Sequence[UUID]:
        """See ``Runs.expire``."""
        ended = await self._database.value(EXPIRE, (limit, DEADLINE_PASSED))
        return [UUID(run) for run in ended]


def _claim(conversation: str, call_id: UUID, row: Mapping[str, Any]) -> Claim:
    run, session, route, spent = row["run"], row["session"], row["route"], row["spent"]
    return Claim(
        run=UUID(run["id"]),
        conversation=conversation,
        epoch=row["epoch"],
        ordinal=run["ordinal"],
        kind=run["kind"],
        source=run["source"],
        tier=run["tier"],
        principal=run["principal"],
        sender=run["sender"],
        contact=row["contact"],
        channel=row["channel"],
        text=run["message"].get("text", ""),
        accepted_at=datetime.fromisoformat(run["accepted_at"]),
        time_left=timedelta(seconds=run["time_left"]),
        attempts=run["attempts"],
        stage=run["stage"],
        step=run["step"],
        keep=run["keep"],
        cancel_asked=run["cancel_asked"],
        session=Session(
            id=UUID(session["id"]),
            created_at=datetime.fromisoformat(session["created_at"]),
            last_ordinal=session["last_ordinal"],
            live_from=session["live_from"],
            summary=session["summary"],
            compaction_count=session["compaction_count"],
            context_tokens=session["context_tokens"],
            warned=session["warned"],
            compact_above=session["compact_above"],
        ),
        route=Route(route["model"], Decimal(route["worst_case"]), route["currency"]),
        call_id=call_id,
        history_from=row["from"],
        messages=_messages(row["messages"]),
        effects=[
            StoredEffect(
                call_index=effect["call_index"],
                call_id=effect["call_id"],
                tool=effect["tool"],
                effect=effect["class"],
                state=effect["state"],
                proof=effect["proof"],
                result=effect["result"],
            )
            for effect in row["effects"] or ()
        ],
        spent=Spent(
            Decimal(spent["cost"]),
            spent["calls"],
            Usage(spent["input"], spent["output"], spent["cache_read"], spent["cache_write"]),
        )
        if spent
        else Spent(),
        approvals=[
            StoredApproval(
                call_index=asked["call_index"],
                tool=asked["tool"],
                args_hash=asked["args_hash"],
                state=asked["state"],
                answer=asked["answer"],
            )
            for asked in row["approvals"] or ()
        ],
        retries=run["retries"],
        suspected=run["suspected"],
        traceparent=run["traceparent"],
    )


def _messages(rows: Sequence[tuple[int, str, Message]]) -> list[StoredMessage]:
    """A run writes several in a row, and an id takes longer to read than all else of a row."""
    writers = {text: UUID(text) for text in {writer for _, writer, _ in rows}}
    return [StoredMessage(ordinal, writers[writer], body) for ordinal, writer, body in rows]


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
    the release before shows no attachments."""
    if with_blobs:
        return UNDERSTANDS
    plain = new.when_busy == "queue" and new.webhook is None and not is_carried(new.address.channel)
    return 1 if plain else MANNERS
