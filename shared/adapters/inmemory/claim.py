"""A worker takes a conversation, and the run that stands first in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.conclude import is_carried
from shared.adapters.inmemory.rows import ConversationRow, EffectRow, RunRow, SessionRow
from shared.adapters.inmemory.tables import Tables, as_json
from shared.domain.attachment import is_image
from shared.domain.chat import ContentBlock, UserMessage
from shared.domain.child_run import MODEL_ROUTE, child_of
from shared.domain.run import (
    UNDERSTANDS,
    Claim,
    ClaimRefusal,
    Later,
    Reservation,
    Route,
    Session,
    Spent,
    StoredApproval,
    StoredEffect,
    StoredMessage,
)
from shared.ids import new_id
from shared.ports.runs import Cached

MOST_MERGED = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for a claim, and how. The fields are those of ``Runs.claim``."""

    worker: UUID
    call_id: UUID
    routes: Mapping[str, Route]
    cached: Cached | None
    suspect: bool
    alone: bool
    debounce: timedelta


def claim(tables: Tables, key: str, asked: Asked) -> Claim | ClaimRefusal | Later:
    """See ``Runs.claim``."""
    me = tables.workers.get(asked.worker)
    if me is None or me.state != "alive":
        return "fenced"
    conversation = tables.conversations.get(key)
    if conversation is None:
        return "nothing"
    if conversation.owner not in (None, asked.worker) and tables.lives(conversation.owner):
        return "owned"
    line = tables.line(key)
    refusal = _refusal(tables, line[0], asked) if line else "nothing"
    if refusal is not None:
        conversation.owner = None
        return refusal
    run = line[0]
    followers = _followers(tables, conversation, run)
    if (wait := _too_young(tables, conversation, [run, *followers], asked.debounce)) is not None:
        conversation.owner = None
        return Later(wait)
    session = tables.open_session(key)
    if session is None:
        session = SessionRow(new_id(), key, tables.clock.now())
        tables.sessions[session.id] = session
    return _take(tables, conversation, [run, *followers], session, asked)


def _refusal(tables: Tables, run: RunRow, asked: Asked) -> ClaimRefusal | None:
    if run.needs > UNDERSTANDS:
        return "nothing"
    if run.state == "waiting" and (run.wake_at is None or run.wake_at > tables.clock.now()):
        return "nothing"
    if run.suspected >= 3 and not asked.alone:
        return "alone"
    if run.suspected == 2 and not asked.suspect and not asked.alone:
        return "suspect"
    return None


def _followers(tables: Tables, conversation: ConversationRow, run: RunRow) -> list[RunRow]:
    """Messages in a row from one person of a channel: they are one question."""
    found: list[RunRow] = []
    if run.kind != "message" or run.stage != "new" or not is_carried(conversation.channel):
        return found
    by_ordinal = {row.ordinal: row for row in tables.runs.values() if row.conversation == conversation.key}
    while len(found) < MOST_MERGED:
        other = by_ordinal.get(run.ordinal + len(found) + 1)
        if other is None or not _goes_with(run, other):
            break
        found.append(other)
    return found


def _goes_with(run: RunRow, other: RunRow) -> bool:
    same = (other.sender, other.source, other.tier, other.kind) == (run.sender, run.source, run.tier, run.kind)
    return same and other.state == "accepted" and not other.urgent and other.needs <= UNDERSTANDS


def _too_young(
    tables: Tables, conversation: ConversationRow, runs: Sequence[RunRow], debounce: timedelta
) -> timedelta | None:
    if runs[0].kind != "message" or runs[0].stage != "new" or not is_carried(conversation.channel):
        return None
    newest, now = max(run.accepted_at for run in runs), tables.clock.now()
    wait = newest + debounce - now
    return wait if newest <= now and wait > timedelta(0) else None


def _take(
    tables: Tables,
    conversation: ConversationRow,
    runs: Sequence[RunRow],
    session: SessionRow,
    asked: Asked,
) -> Claim:
    run, followers = runs[0], runs[1:]
    # A claim whose answer got lost is asked for again: that is no second attempt.
    again = conversation.owner == asked.worker and run.state == "running" and run.epoch == conversation.epoch
    resumed, begun = run.state == "waiting", run.stage != "new"
    conversation.owner = asked.worker
    conversation.epoch += 1
    if run.kind == "message" and not begun:
        _say(tables, session, runs)
    if again:
        _settle_forgotten(tables, asked, run.id)
    shown = asked.routes.get("image") if _has_image(tables, run.id) else None
    chosen = asked.routes.get(f"{MODEL_ROUTE}{run.message.get('child', {}).get('model')}")
    route = shown or chosen or asked.routes.get(run.kind) or asked.routes.get(run.source) or asked.routes["*"]
    if run.stage != "tools" and run.kind != "outbound":
        tables.reserve(Reservation(asked.call_id, route), asked.worker, run.id)
    if run.waiting_since is not None and run.wait_reason != "retry":
        run.deadline_at += tables.clock.now() - run.waiting_since
    run.state, run.epoch, run.session = "running", conversation.epoch, session.id
    run.attempts += 0 if again or resumed else 1
    run.stage = run.stage if begun else "model"
    run.wait_reason = run.wake_at = run.waiting_since = None
    for follower in followers:
        follower.state, follower.merged_into = "merged", run.id
        follower.epoch, follower.session = run.epoch, session.id
    taken = _brief(tables, conversation, run, session, asked)
    return replace(taken, route=route, spent=_spent(tables, run.id) if begun else Spent())


def _say(tables: Tables, session: SessionRow, runs: Sequence[RunRow]) -> None:
    said: UserMessage = {
        "role": "user",
        "content": content([run.message for run in runs]),
        "received_at": runs[0].accepted_at.isoformat(),
    }
    if session.pending_warning is not None:
        said["warning"] = session.pending_warning
    session.pending_warning = None
    tables.append(session.id, runs[0].id, said)


def content(messages: Sequence[Mapping[str, Any]]) -> str | list[ContentBlock]:
    """Several messages in a row as one: their texts, or blocks where attachments came with them."""
    if not any("attachments" in message for message in messages):
        return "\n".join(message["text"] for message in messages)
    blocks: list[ContentBlock] = []
    for message in messages:
        blocks += [{"type": "text", "text": message["text"]}, *message.get("attachments", ())]
    return blocks


def _has_image(tables: Tables, run: UUID) -> bool:
    said = [row.body["content"] for row in tables.messages if row.run == run and row.body["role"] == "user"]
    blocks = [block for content in said if not isinstance(content, str) for block in content]
    return any(block["type"] == "blob" and is_image(block) for block in blocks)


def _settle_forgotten(tables: Tables, asked: Asked, run: UUID) -> None:
    for row in list(tables.reservations.values()):
        if row.worker == asked.worker and row.run == run and row.call_id != asked.call_id and not row.settled:
            tables.settle_unknown(row)


def _spent(tables: Tables, run: UUID) -> Spent:
    spent = Spent()
    for paid in tables.costs.values():
        if paid.run == run and not (paid.estimated and not paid.provider):  # what was paid, not what may be
            spent = Spent(spent.cost + paid.cost, spent.calls + 1, spent.usage + paid.usage)
    return spent


def _brief(tables: Tables, conversation: ConversationRow, run: RunRow, session: SessionRow, asked: Asked) -> Claim:
    """All that the claim brings but the money."""
    history_from, cached = session.live_from, asked.cached
    if cached is not None and cached.session == session.id and cached.live_from == session.live_from:
        history_from = cached.ordinal + 1
    return Claim(
        run=run.id,
        conversation=conversation.key,
        epoch=conversation.epoch,
        ordinal=run.ordinal,
        kind=run.kind,
        source=run.source,
        tier=run.tier,
        principal=run.principal,
        sender=run.sender,
        contact=conversation.contact,
        channel=conversation.channel,
        text=run.message.get("text", ""),
        accepted_at=run.accepted_at,
        time_left=run.deadline_at - tables.clock.now(),
        attempts=run.attempts,
        stage=run.stage,
        step=run.step,
        keep=run.keep,
        cancel_asked=None if run.cancel_asked_at is None else run.cancel_reason or "",
        session=_session(session),
        route=Route("", Decimal(0), ""),
        call_id=asked.call_id,
        history_from=history_from,
        messages=[
            StoredMessage(row.ordinal, row.run, as_json(row.body))
            for row in tables.messages
            if row.session == session.id and row.ordinal >= history_from and not row.dropped
        ],
        effects=_effects(tables, run),
        approvals=_approvals(tables, run),
        retries=run.retries,
        suspected=run.suspected,
        traceparent=run.traceparent,
        child=child_of(run.message),
        attachments=as_json(run.message.get("attachments", ())),
    )


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


def _effects(tables: Tables, run: RunRow) -> Sequence[StoredEffect]:
    found = [row for row in tables.effects.values() if (row.run, row.step) == (run.id, run.step)]
    if run.stage != "tools":
        return []
    return [_effect(row) for row in sorted(found, key=lambda row: row.call_index)]


def _effect(row: EffectRow) -> StoredEffect:
    return StoredEffect(
        call_index=row.call_index,
        call_id=row.call_id,
        tool=row.tool,
        effect=row.effect,
        state=row.state,
        proof=row.proof,
        result=row.result,
    )


def _approvals(tables: Tables, run: RunRow) -> Sequence[StoredApproval]:
    found = [row for row in tables.approvals.values() if (row.run, row.step) == (run.id, run.step)]
    if run.stage != "tools":
        return []
    return [
        StoredApproval(row.call_index, row.tool, row.args_hash, row.state, row.answer)
        for row in sorted(found, key=lambda row: row.call_index)
    ]
