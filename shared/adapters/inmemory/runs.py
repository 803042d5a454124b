"""Runs, without a Postgres: the same promises over dictionaries."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.tables import (
    LIVING,
    ConversationRow,
    EffectRow,
    KeyRow,
    ReservationRow,
    RunRow,
    SessionRow,
    Tables,
    as_json,
)
from shared.domain.chat import AssistantMessage, ToolResultsMessage, UserMessage
from shared.domain.run import (
    Accepted,
    Claim,
    ClaimRefusal,
    Ending,
    NewRun,
    Reservation,
    Route,
    Session,
    Settlement,
    Spent,
    StoredEffect,
    StoredMessage,
    Write,
)
from shared.errors import Conflict, LostClaim, TryLater
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.runs import Cached, FinishedRun, Reset

DEADLINE_PASSED = "This took longer than it may, and was stopped."
RESET_HERE = "The session was reset."
COMPACTION_DEADLINE = timedelta(hours=1)


class InMemoryRuns:
    """``Inbox`` and ``Runs`` of the ports. All that are given the same tables are one store."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def accept(self, new: NewRun) -> Accepted:
        """See ``Inbox.accept``."""
        await asyncio.sleep(0)  # others have a turn before this transaction, never inside it
        tables, now = self._tables, self._tables.clock.now()
        if (there := tables.runs.get(new.id)) is not None:
            return _accepted(there, created=True)
        key = new.idempotency
        if key is not None and (known := tables.idempotency.get((key.scope, key.key))) and known.expires_at >= now:
            if known.body_hash != key.body_hash:
                raise Conflict("this idempotency key was used with another body")
            return _accepted(tables.runs[known.run], created=False)
        address = new.address
        if len(tables.line(address.conversation)) >= new.capacity:
            raise TryLater("too many messages wait in this conversation", after=5.0)
        if key is not None:
            tables.idempotency[key.scope, key.key] = KeyRow(key.body_hash, new.id, now + key.lives)
        fresh = ConversationRow(address.conversation, address.channel, address.principal, address.contact)
        conversation = tables.conversations.setdefault(address.conversation, fresh)
        conversation.contact = address.contact
        conversation.last_ordinal += 1
        run = RunRow(
            id=new.id,
            conversation=address.conversation,
            ordinal=conversation.last_ordinal,
            kind=new.kind,
            source=new.source,
            tier=new.tier,
            principal=address.principal,
            sender=new.sender,
            message=as_json({"text": new.text, **new.details}),
            accepted_at=now,
            deadline_at=now + new.deadline,
            traceparent=new.traceparent,
        )
        tables.runs[run.id] = run
        return _accepted(run, created=True)

    async def outcomes(self, runs: Sequence[UUID]) -> Sequence[FinishedRun]:
        """See ``Inbox.outcomes``."""
        found = [self._tables.runs[run] for run in runs if run in self._tables.runs]
        return [_finished(row) for row in found if row.finished_at is not None]

    async def reset(self, conversation: str, run: UUID, *, source: str, sender: str) -> Reset | None:
        """See ``Inbox.reset``."""
        await asyncio.sleep(0)  # others have a turn before this transaction, never inside it
        tables, now = self._tables, self._tables.clock.now()
        if (before := tables.runs.get(run)) is not None and before.session is not None:
            return Reset(before.session, ())
        row = tables.conversations.get(conversation)
        session = tables.open_session(conversation)
        if row is None or session is None:
            return None
        session.closed = True
        row.owner = None
        row.epoch += 1
        row.last_ordinal += 1
        cancelled = [waiting for waiting in tables.line(conversation) if waiting.state in {"running", "waiting"}]
        for cut in cancelled:
            self._cut(cut, "cancelled", RESET_HERE)
            self._close_history(cut, RESET_HERE)
        tables.runs[run] = RunRow(
            id=run,
            conversation=conversation,
            ordinal=row.last_ordinal,
            kind="reset",
            source="system",
            tier="full",
            principal=row.principal,
            sender=sender,
            message={"source": source},
            accepted_at=now,
            deadline_at=now,
            state="done",
            session=session.id,
            outcome={},
            finished_at=now,
            published=True,
        )
        return Reset(session.id, tuple(cut.id for cut in cancelled))

    async def claim(
        self, conversation: str, *, worker: UUID, call_id: UUID, routes: Mapping[str, Route], cached: Cached | None
    ) -> Claim | ClaimRefusal:
        """See ``Runs.claim``."""
        await asyncio.sleep(0)  # others have a turn before this transaction, never inside it
        tables = self._tables
        me = tables.workers.get(worker)
        if me is None or me.state != "alive":
            return "fenced"
        row = tables.conversations.get(conversation)
        if row is None:
            return "nothing"
        if row.owner not in (None, worker) and self._lives(row.owner):
            return "owned"
        line = tables.line(conversation)
        if not line or line[0].state == "waiting":
            row.owner = None
            return "nothing"
        run = line[0]
        session = tables.open_session(conversation)
        if session is None:
            session = SessionRow(new_id(), conversation, tables.clock.now())
            tables.sessions[session.id] = session
        # A claim whose answer got lost is asked for again: that is no second attempt.
        mine = row.owner == worker and run.state == "running" and run.epoch == row.epoch
        claimed_before = run.stage != "new"
        row.owner = worker
        row.epoch += 1
        if run.stage == "new" and run.kind == "message":
            self._say(session, run)
        if mine:
            self._settle_forgotten(worker, run.id, call_id)
        route = routes.get(run.kind) or routes.get(run.source) or routes["*"]
        if run.stage != "tools":
            self._reserve(Reservation(call_id, route), worker, run.id)
        run.state, run.epoch, run.session = "running", row.epoch, session.id
        run.attempts += 0 if mine else 1
        run.stage = "model" if run.stage == "new" else run.stage
        brief = self._brief(row, run, session, cached)
        return replace(brief, route=route, call_id=call_id, spent=self._spent(run.id) if claimed_before else Spent())

    async def store(self, conversation: str, *, worker: UUID, epoch: int, write: Write) -> bool:
        """See ``Runs.store``."""
        await asyncio.sleep(0)  # others have a turn before this transaction, never inside it
        tables = self._tables
        if write.settle is not None:
            tables.settle(write.settle)
        row, run = tables.conversations[conversation], tables.runs[write.run]
        if run.last_write == write.id:
            return row.owner == worker
        if row.epoch != epoch or row.owner != worker or run.state != "running" or run.session is None:
            raise LostClaim(conversation)
        for message in write.messages:
            tables.append(run.session, run.id, message)
        for intent in write.intents:
            step = run.step if write.step is None else write.step
            proof = as_json(intent.proof)
            effect = EffectRow(run.id, step, intent.call_index, intent.call_id, intent.tool, intent.effect, proof)
            tables.effects[run.id, step, intent.call_index] = effect
        for result in write.results:
            known = tables.effects.get((run.id, run.step, result.call_index))
            if known is not None and known.state == "intended":
                known.state, known.result = result.state, as_json(result.result)
        if write.reserve is not None:
            self._reserve(write.reserve, worker, run.id)
        if write.told is not None:
            tables.run_steps.setdefault((run.id, write.told.step, epoch), []).extend(as_json(write.told.events))
        run.last_write = write.id
        if write.ending is not None:
            return self._end(row, run, tables.sessions[run.session], write.ending)
        run.step = run.step if write.step is None else write.step
        run.stage = write.stage or run.stage
        run.keep = write.keep or run.keep
        return True

    async def settle(self, settlement: Settlement) -> None:
        """See ``Runs.settle``."""
        self._tables.settle(settlement)

    async def hand_back(self, conversation: str, *, worker: UUID, epoch: int) -> bool:
        """See ``Runs.hand_back``."""
        await asyncio.sleep(0)  # others have a turn before this transaction, never inside it
        row = self._tables.conversations[conversation]
        if row.owner != worker or row.epoch != epoch:
            return False
        row.owner = None
        for run in self._tables.line(conversation):
            if run.epoch == epoch and run.state == "running":
                run.attempts = max(0, run.attempts - 1)
        return True

    async def orphans(
        self, *, older_than: timedelta, limit: int, worker: UUID | None = None, in_hand: Sequence[str] = ()
    ) -> Sequence[str]:
        """See ``Runs.orphans``."""
        before = self._tables.clock.now() - older_than
        oldest: dict[str, RunRow] = {}
        for run in sorted(self._tables.runs.values(), key=lambda run: run.accepted_at):
            if run.state not in {"accepted", "running"} or run.accepted_at >= before:
                continue
            owner = self._tables.conversations[run.conversation].owner
            forgotten = owner is not None and owner == worker and run.conversation not in in_hand
            if owner is None or forgotten or not self._lives(owner):
                oldest.setdefault(run.conversation, run)
        return list(oldest)[:limit]

    async def overtaken(self, epochs: Mapping[str, int], *, worker: UUID) -> Sequence[str]:
        """See ``Runs.overtaken``."""
        held = {key: self._tables.conversations[key] for key in epochs if key in self._tables.conversations}
        return [key for key, row in held.items() if row.epoch > epochs[key] and row.owner != worker]

    async def unpublished(self, *, older_than: timedelta, limit: int) -> Sequence[FinishedRun]:
        """See ``Runs.unpublished``."""
        before = self._tables.clock.now() - older_than
        due = [
            (run.finished_at, run)
            for run in self._tables.runs.values()
            if run.finished_at is not None and run.finished_at < before and not run.published
        ]
        return [_finished(run) for _, run in sorted(due, key=lambda pair: pair[0])][:limit]

    async def published(self, runs: Sequence[UUID]) -> None:
        """See ``Runs.published``."""
        for run in runs:
            self._tables.runs[run].published = True

    async def tell_again(self, *, ended_within: timedelta) -> int:
        """See ``Runs.tell_again``."""
        since = self._tables.clock.now() - ended_within
        again = [
            run
            for run in self._tables.runs.values()
            if run.published and run.kind != "reset" and run.finished_at is not None and run.finished_at > since
        ]
        for run in again:
            run.published = False
        return len(again)

    async def expire(self, *, limit: int) -> Sequence[UUID]:
        """See ``Runs.expire``."""
        now = self._tables.clock.now()
        due = [run for run in self._tables.runs.values() if run.deadline_at < now]
        due = [run for run in due if run.state in {"accepted", "running"}]
        ended = sorted(due, key=lambda run: run.deadline_at)[:limit]
        for run in ended:
            self._cut(run, "failed", DEADLINE_PASSED)
            self._close_history(run, DEADLINE_PASSED)
            row = self._tables.conversations[run.conversation]
            if row.epoch == run.epoch:
                row.owner = None
                row.epoch += 1
        return [run.id for run in ended]

    def _lives(self, worker: UUID | None) -> bool:
        row = self._tables.workers.get(worker) if worker else None
        return row is not None and row.state in LIVING

    def _say(self, session: SessionRow, run: RunRow) -> None:
        said: UserMessage = {
            "role": "user",
            "content": run.message["text"],
            "received_at": run.accepted_at.isoformat(),
        }
        if session.pending_warning is not None:
            said["warning"] = session.pending_warning
        session.pending_warning = None
        self._tables.append(session.id, run.id, said)

    def _reserve(self, reservation: Reservation, worker: UUID, run: UUID) -> None:
        route = reservation.route
        row = ReservationRow(reservation.call_id, worker, run, route.model, route.worst_case, route.currency)
        self._tables.reservations.setdefault(reservation.call_id, row)

    def _settle_forgotten(self, worker: UUID, run: UUID, call_id: UUID) -> None:
        for row in list(self._tables.reservations.values()):
            if row.worker == worker and row.run == run and row.call_id != call_id and not row.settled:
                self._tables.settle_unknown(row)

    def _spent(self, run: UUID) -> Spent:
        paid = [settlement for settlement in self._tables.costs.values() if settlement.run == run]
        spent = Spent()
        for settlement in paid:
            spent = Spent(spent.cost + settlement.cost, spent.calls + 1, spent.usage + settlement.usage)
        return spent

    def _brief(self, row: ConversationRow, run: RunRow, session: SessionRow, cached: Cached | None) -> Claim:
        """All that the claim brings but the money."""
        tables = self._tables
        history_from = session.live_from
        if cached is not None and cached.session == session.id and cached.live_from == session.live_from:
            history_from = cached.ordinal + 1
        rows = [
            StoredMessage(message.ordinal, message.run, as_json(message.body))
            for message in tables.messages
            if message.session == session.id and message.ordinal >= history_from and not message.dropped
        ]
        effects = sorted(
            (effect for key, effect in tables.effects.items() if key[:2] == (run.id, run.step)),
            key=lambda effect: effect.call_index,
        )
        return Claim(
            run=run.id,
            conversation=row.key,
            epoch=row.epoch,
            ordinal=run.ordinal,
            kind=run.kind,
            source=run.source,
            tier=run.tier,
            principal=run.principal,
            sender=run.sender,
            contact=row.contact,
            channel=row.channel,
            text=run.message.get("text", ""),
            accepted_at=run.accepted_at,
            time_left=run.deadline_at - tables.clock.now(),
            attempts=run.attempts,
            stage=run.stage,
            step=run.step,
            keep=run.keep,
            cancel_asked=False,
            session=_session(session),
            route=Route("", Decimal(0), ""),
            call_id=run.id,
            history_from=history_from,
            messages=rows,
            effects=[_effect(effect) for effect in effects] if run.stage == "tools" else [],
            traceparent=run.traceparent,
        )

    def _end(self, row: ConversationRow, run: RunRow, session: SessionRow, ending: Ending) -> bool:
        tables = self._tables
        if ending.drop:
            tables.drop(run.id)
        run.state, run.outcome, run.terminal = ending.state, as_json(ending.outcome), ending.terminal
        run.finished_at = tables.clock.now()
        if (after := ending.session) is not None:
            session.context_tokens, session.warned = after.context_tokens, after.warned
            session.compact_above = after.compact_above
            session.pending_warning = after.pending_warning or session.pending_warning
        if (compaction := ending.compaction) is not None:
            session.summary, session.live_from = compaction.summary, compaction.live_from
            session.compaction_count += 1
            session.context_tokens, session.warned, session.pending_warning = 0, False, None
            session.compact_above = 0
        waits = any(waiting.kind == "compact" for waiting in tables.line(row.key))
        if ending.compact is not None and not waits:
            row.last_ordinal += 1
            tables.runs[ending.compact] = RunRow(
                id=ending.compact,
                conversation=row.key,
                ordinal=row.last_ordinal,
                kind="compact",
                source="system",
                tier="full",
                principal=run.principal,
                sender=run.sender,
                message={},
                accepted_at=run.finished_at,
                deadline_at=run.finished_at + COMPACTION_DEADLINE,
            )
        more = bool(tables.line(row.key))
        if not more:
            row.owner = None
        return more

    def _cut(self, run: RunRow, state: str, reason: str) -> None:
        """End a run that is another's."""
        run.state = "cancelled" if state == "cancelled" else "failed"
        run.finished_at, run.terminal = self._tables.clock.now(), terminal_id(run.epoch)
        run.outcome = {
            "state": run.state,
            "run_id": str(run.id),
            "session_id": str(run.session) if run.session else None,
            "error": reason,
            "reply": "",
        }

    def _close_history(self, run: RunRow, reason: str) -> None:
        if run.session is None:
            return
        if run.stage != "tools" and run.step == 0:
            self._tables.drop(run.id)
            return
        if run.stage == "tools":
            said = [row.body for row in self._tables.messages if row.run == run.id]
            self._tables.append(run.session, run.id, _unknown_results(said[-1], reason))
        stopped: AssistantMessage = {"role": "assistant", "text": f"[Stopped: {reason}]"}
        self._tables.append(run.session, run.id, stopped)


def _accepted(run: RunRow, *, created: bool) -> Accepted:
    return Accepted(run.id, run.conversation, run.ordinal, run.state, created)


def _finished(run: RunRow) -> FinishedRun:
    outcome: dict[str, Any] = run.outcome or {}
    return FinishedRun(run.id, run.conversation, run.terminal or terminal_id(run.epoch), as_json(outcome))


def _session(row: SessionRow) -> Session:
    return Session(
        id=row.id,
        created_at=row.created_at,
        last_ordinal=row.last_ordinal,
        live_from=row.live_from,
        summary=row.summary,
        compaction_count=row.compaction_count,
        context_tokens=row.context_tokens,
        warned=row.warned,
        compact_above=row.compact_above,
    )


def _effect(row: EffectRow) -> StoredEffect:
    state = row.state
    return StoredEffect(
        call_index=row.call_index,
        call_id=row.call_id,
        tool=row.tool,
        effect=row.effect,
        state="in_doubt" if state == "in_doubt" else "done" if state == "done" else "intended",
        proof=row.proof,
        result=row.result,
    )


def _unknown_results(answer: Any, reason: str) -> ToolResultsMessage:
    sentence = f"Error: the run ended before a result was known ({reason})."
    return {
        "role": "tool_results",
        "results": [
            {"tool_use_id": call["id"], "content": sentence, "is_error": True} for call in answer["tool_calls"]
        ],
    }
