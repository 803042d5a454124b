"""Claims, steps and ends of runs over Postgres: one function call each, one round trip, one commit."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from shared.adapters.postgres.documents import to_json
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.rows import settlement_document, write_document
from shared.domain.chat import Message
from shared.domain.child_run import child_of
from shared.domain.money import Usage
from shared.domain.run import (
    UNDERSTANDS,
    Claim,
    ClaimRefusal,
    Later,
    Route,
    Session,
    Settlement,
    Spent,
    Stored,
    StoredApproval,
    StoredEffect,
    StoredMessage,
    Write,
)
from shared.errors import LostClaim
from shared.ids import new_id
from shared.ports.runs import Cached, FinishedRun

CLAIM = "select lucyd_claim_3(%s, %s, %s, %s, %s, %s::jsonb, %s, %s, %s, %s, %s, %s)"
STORE = "select lucyd_store_2(%s, %s, %s, %s::jsonb)"
SETTLE = "select lucyd_settle(%s::jsonb)"
HAND_BACK = "select lucyd_hand_back_2(%s, %s, %s, %s)"
EXPIRE = "select lucyd_expire_2(%s, %s)"
CANCEL_OVERDUE = "select lucyd_cancel_overdue(%s, %s)"
CANCELS = """
select held.key, coalesce(r.cancel_reason, '') from unnest(%s::text[], %s::bigint[]) as held (key, epoch)
join runs r on r.conversation = held.key and r.epoch = held.epoch and r.state = 'running'
where r.cancel_asked_at is not null
"""
UNPUBLISHED = """
select id, conversation, terminal, outcome from runs
where published_at is null and (finished_at < now() - %s or finished_at > now() + interval '1 minute')
order by finished_at limit %s
"""
# The share keeps this and TELLS_AGAIN apart: who notes before is seen by what is told again, who notes after
# sees that it is.
PUBLISHED = """
with refilled as (select updated_at from settings where key = 'redis_refilled' for share)
update runs set published_at = now() where id = any(%s) and published_at is null
  and not exists (select 1 from refilled where updated_at >= now() - %s)
"""
OVERTAKEN = """
select c.key from unnest(%s::text[], %s::bigint[]) as held (key, epoch) join conversations c on c.key = held.key
where c.epoch > held.epoch and c.owner is distinct from %s
"""
TELLS_AGAIN = """
insert into settings (key, value) values ('redis_refilled', 'true') on conflict (key) do update set updated_at = now()
"""
# The ids of runs are UUIDv7: their order is that of acceptance, and their index serves for "lately".
TELL_AGAIN = """
with again as (
  update runs set published_at = null
    where id > (lpad(to_hex((extract(epoch from now() - %s) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
      and finished_at > now() - %s and published_at is not null and kind <> 'reset' returning 1
)
select count(*) from again
"""

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
PRINCIPALS = "select key, principal from conversations where key = any(%s)"

CLAIM_PATIENCE = timedelta(seconds=2)

TELL_AGAIN_PATIENCE = timedelta(seconds=30)
"""It touches every run that ended in the last hour."""

STORE_PATIENCE = timedelta(seconds=60)
"""A step that was paid for is worth waiting for; the epoch tells afterwards whether it may still be stored."""

DEADLINE_PASSED = "This took longer than it may, and was stopped."


class PostgresRuns:
    """``Runs`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        child=child_of(run["message"]),
        attachments=run["message"].get("attachments", ()),
    )


def _messages(rows: Sequence[tuple[int, str, Message]]) -> list[StoredMessage]:
    """A run writes several in a row, and an id takes longer to read than all else of a row."""
    writers = {text: UUID(text) for text in {writer for _, writer, _ in rows}}
    return [StoredMessage(ordinal, writers[writer], body) for ordinal, writer, body in rows]
