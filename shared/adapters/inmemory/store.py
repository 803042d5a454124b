"""One step, a wait, or the end of an attempt is written; and what an attempt gives back."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.claim import content
from shared.adapters.inmemory.conclude import add_parts, conclude, end_from_outside
from shared.adapters.inmemory.rows import ApprovalRow, ConversationRow, EffectRow, RunRow
from shared.adapters.inmemory.tables import Tables, as_json
from shared.domain.chat import Message, UserMessage
from shared.domain.run import UNDERSTANDS, Compaction, Ending, SessionAfter, Stored, Waiting, Write
from shared.errors import LostClaim

COMPACTION_DEADLINE = timedelta(hours=1)
KNOWS_ACTS = 4
"""The version of code that knows what an act in Postgres without a result means; see ``0019_local_intents.sql``."""


def store(tables: Tables, key: str, *, worker: UUID, epoch: int, write: Write) -> Stored:
    """See ``Runs.store``."""
    if write.settle is not None:
        tables.settle(write.settle)
    conversation, run = tables.conversations[key], tables.runs[write.run]
    held = conversation.epoch == epoch and conversation.owner == worker and run.state == "running"
    if run.last_write == write.id and (held or write.ending is not None or write.waiting is not None):
        return _stored_before(tables, conversation, run, worker, write)
    if not held or run.session is None:
        raise LostClaim(key)
    for message in write.messages:
        tables.append(run.session, run.id, message)
    _write_effects(tables, run, write)
    if write.reserve is not None:
        tables.reserve(write.reserve, worker, run.id)
    if write.told is not None:
        stored = tables.run_steps.setdefault((run.id, write.told.step, epoch), [])
        last = stored[-1][0] if stored else -1
        stored.extend(event for event in as_json(write.told.events) if event[0] > last)
    run.last_write, run.keep = write.id, write.keep or run.keep
    if write.ending is not None:
        return _end(tables, conversation, run, write.ending)
    run.step = run.step if write.step is None else write.step
    run.stage = write.stage or run.stage
    if write.waiting is not None:
        return _wait(tables, conversation, run, write.waiting)
    return Stored(more=True, absorbed=_absorb(tables, run) if write.absorb else ())


def hand_back(tables: Tables, key: str, *, worker: UUID, epoch: int, unbegun: bool) -> bool:
    """See ``Runs.hand_back``."""
    conversation = tables.conversations[key]
    if conversation.owner != worker or conversation.epoch != epoch:
        return False
    conversation.owner = None
    for run in tables.line(key):
        if run.epoch == epoch and run.state == "running":
            run.attempts = max(0, run.attempts - 1)
            if unbegun:
                _forget_intents(tables, run)
    return True


def _stored_before(tables: Tables, conversation: ConversationRow, run: RunRow, worker: UUID, write: Write) -> Stored:
    """Only the answer got lost."""
    more = conversation.owner == worker
    if write.ending is None and not write.absorb:
        return Stored(more, outcome=as_json(run.outcome))
    if write.ending is not None:
        return Stored(more, (), _beyond(run, write.ending.outcome), _followers(tables, run))
    own = [row for row in tables.messages if row.run == run.id]
    last = max((row.ordinal for row in own if row.body["role"] == "tool_results"), default=None)
    return Stored(more, [as_json(row.body) for row in own if last is not None and row.ordinal > last])


def _write_effects(tables: Tables, run: RunRow, write: Write) -> None:
    for intent in write.intents:
        step = run.step if write.step is None else write.step
        effect = EffectRow(
            run.id, step, intent.call_index, intent.call_id, intent.tool, intent.effect, as_json(intent.proof)
        )
        tables.effects[run.id, step, intent.call_index] = effect
        if intent.effect == "local":
            run.needs = max(run.needs, KNOWS_ACTS)
    for result in write.results:
        known = tables.effects.get((run.id, run.step, result.call_index))
        if known is not None and known.state == "intended":
            known.state, known.result = result.state, as_json(result.result)
    if write.unbegun:
        _forget_intents(tables, run)


def _forget_intents(tables: Tables, run: RunRow) -> None:
    """None of them was begun, so they are as if they never were."""
    for key, effect in list(tables.effects.items()):
        if key[:2] == (run.id, run.step) and effect.state == "intended":
            del tables.effects[key]


def _wait(tables: Tables, conversation: ConversationRow, run: RunRow, waiting: Waiting) -> Stored:
    if run.cancel_asked_at is not None:
        end_from_outside(tables, run, "cancelled", run.cancel_reason or "")
        return _released(tables, conversation, run, {})
    now = tables.clock.now()
    run.state, run.wait_reason, run.waiting_since = "waiting", waiting.reason, now
    run.wake_at = now + waiting.wake_in if waiting.wake_in is not None else None
    run.retries, run.needs = waiting.retries, max(run.needs, 2)
    for asked in waiting.approvals:
        place = (run.id, run.step, asked.call_index)  # asked anew: what was answered was about something else
        for earlier in [row for row in tables.approvals.values() if (row.run, row.step, row.call_index) == place]:
            del tables.approvals[earlier.id]
        tables.approvals[asked.id] = ApprovalRow(
            asked.id, run.id, run.step, asked.call_index, asked.tool, asked.args_hash, asked.question
        )
    add_parts(tables, run, "question", waiting.parts)
    conversation.owner = None
    return Stored(more=False)


def _absorb(tables: Tables, run: RunRow) -> Sequence[Message]:
    """A steering text is taken in between two turns, with what stood before it in the line."""
    if run.session is None:
        return ()
    absorbed: list[Message] = []
    merged = [row for row in tables.runs.values() if row.merged_into == run.id]
    for row in sorted(merged, key=lambda row: row.ordinal):
        if row.message.pop("unshown", None):  # it came with an answer
            absorbed.append(_take_in(tables, run.session, run, row))
    if run.cancel_asked_at is not None:
        return absorbed
    behind = [
        row
        for row in tables.line(run.conversation)
        if row.state == "accepted" and row.kind == "message" and row.ordinal > run.ordinal
    ]
    until = max((row.ordinal for row in behind if row.when_busy == "steer"), default=0)
    for row in sorted(behind, key=lambda row: row.ordinal):
        alike = (row.source, row.tier) == (run.source, run.tier)
        if row.ordinal > until or not alike or row.urgent or row.needs > UNDERSTANDS:
            break
        absorbed.append(_take_in(tables, run.session, run, row))
        row.state, row.merged_into, row.epoch, row.session = "merged", run.id, run.epoch, run.session
    return absorbed


def _take_in(tables: Tables, session: UUID, run: RunRow, row: RunRow) -> UserMessage:
    """Put a message into the history of the run in hand."""
    said: UserMessage = {
        "role": "user",
        "content": content([row.message]),
        "received_at": row.accepted_at.isoformat(),
    }
    tables.append(session, run.id, said)
    return said


def _end(tables: Tables, conversation: ConversationRow, run: RunRow, ending: Ending) -> Stored:
    if ending.drop:
        tables.drop(run.id)
    conclude(
        tables, run, ending.state, ending.outcome, terminal=ending.terminal, parts=ending.parts, files=ending.files
    )
    if run.session is not None:
        _leave_session(tables, run.session, ending.session, ending.compaction)
    waits = any(waiting.kind == "compact" for waiting in tables.line(conversation.key))
    if ending.compact is not None and not waits:
        _compact_next(tables, conversation, run, ending.compact)
    return _released(tables, conversation, run, ending.outcome)


def _released(tables: Tables, conversation: ConversationRow, run: RunRow, given: Mapping[str, Any]) -> Stored:
    """The owner stays when more waits in the conversation."""
    more = bool(tables.line(conversation.key))
    if not more:
        conversation.owner = None
    return Stored(more, (), _beyond(run, given), _followers(tables, run))


def _leave_session(tables: Tables, id: UUID, after: SessionAfter | None, compaction: Compaction | None) -> None:
    session = tables.sessions[id]
    if after is not None:
        session.context_tokens, session.warned = after.context_tokens, after.warned
        session.compact_above = after.compact_above
        session.pending_warning = after.pending_warning or session.pending_warning
    if compaction is not None:
        session.summary, session.live_from = compaction.summary, compaction.live_from
        session.compaction_count += 1
        session.context_tokens, session.warned, session.pending_warning = 0, False, None
        session.compact_above = 0


def _compact_next(tables: Tables, conversation: ConversationRow, run: RunRow, id: UUID) -> None:
    now = tables.clock.now()
    conversation.last_ordinal += 1
    tables.runs[id] = RunRow(
        id=id,
        conversation=conversation.key,
        ordinal=conversation.last_ordinal,
        kind="compact",
        source="system",
        tier="full",
        principal=run.principal,
        sender=run.sender,
        message={},
        accepted_at=now,
        deadline_at=now + COMPACTION_DEADLINE,
    )


def _beyond(run: RunRow, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The outcome, when it says more than what was given."""
    stored: dict[str, Any] = as_json(run.outcome)
    return None if stored == as_json(given) else stored


def _followers(tables: Tables, run: RunRow) -> Sequence[UUID]:
    found = [row for row in tables.runs.values() if row.merged_into == run.id]
    return tuple(row.id for row in sorted(found, key=lambda row: row.ordinal))
