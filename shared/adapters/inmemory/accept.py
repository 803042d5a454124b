"""A message gets its place in the line of its conversation, or answers what stands there."""

from uuid import UUID

from shared.adapters.inmemory.answer import answer
from shared.adapters.inmemory.conclude import end_from_outside
from shared.adapters.inmemory.rows import BlobRow, ConversationRow, KeyRow, RunRow
from shared.adapters.inmemory.tables import Tables, as_json
from shared.domain.attachment import blob_id
from shared.domain.consent import says_yes
from shared.domain.run import PEOPLE, UNDERSTANDS, Accepted, NewRun, message_document
from shared.errors import Conflict, Full

INTERRUPTED = "A newer message took its place."


def accept(tables: Tables, new: NewRun) -> Accepted:
    """See ``Inbox.accept``."""
    now = tables.clock.now()
    if (there := tables.runs.get(new.id)) is not None:
        return _accepted(there, created=True)
    key = new.idempotency
    if key is not None and (known := tables.idempotency.get((key.scope, key.key))) and known.expires_at >= now:
        if known.body_hash != key.body_hash:
            raise Conflict("this idempotency key was used with another body")
        return _accepted(tables.runs[known.run], created=False)
    line = tables.line(new.address.conversation)
    head = line[0] if line else None
    if head is not None and new.when_busy == "reject":
        raise Conflict("the conversation is busy")
    answers = head if head is not None and is_answer(tables, head, new) else None
    if answers is None and len(line) >= new.capacity:
        raise Full("too many messages wait in this conversation", after=5.0)
    # From here on nothing is refused: what is written below stays.
    if key is not None:
        tables.idempotency[key.scope, key.key] = KeyRow(key.body_hash, new.id, now + key.lives)
    run = _row(tables, new)
    tables.runs[run.id] = run
    brings = _store_blobs(tables, new)
    if answers is not None:
        answer(tables, answers.id, None, allows=says_yes(new.text), text=new.text, by=new.sender)
        run.state, run.merged_into, run.epoch, run.session = "merged", answers.id, answers.epoch, answers.session
        if brings:  # shown when the run that asked goes on
            run.message["unshown"] = True
            answers.needs = max(answers.needs, UNDERSTANDS)
        return _accepted(run, created=True)
    plain = new.when_busy == "queue" and not brings and new.kind != "outbound"
    run.needs, run.urgent = (1 if plain else UNDERSTANDS), new.when_busy == "interrupt"
    cancels = _interrupt(tables, head) if head is not None and run.urgent else None
    return _accepted(run, created=True, cancels=cancels)


def _store_blobs(tables: Tables, new: NewRun) -> bool:
    """Keep what comes with a message; one that is tried again takes over what came with the first."""
    for position, attachment in enumerate(new.attachments):
        id = blob_id(new.id, position)
        tables.blobs[id] = BlobRow(id, new.id, attachment.data)
    moved = [row for row in tables.blobs.values() if new.retry_of is not None and row.run == new.retry_of]
    for row in moved:
        row.run = new.id
    return bool(new.attachments or moved)


def is_answer(tables: Tables, head: RunRow, new: NewRun) -> bool:
    """The asked person's next text is the answer."""
    asked = head.state == "waiting" and bool(tables.pending(head.id))
    speaks = new.kind == "message" and new.source in PEOPLE and new.sender == head.sender
    return asked and speaks and new.when_busy != "interrupt"


def _row(tables: Tables, new: NewRun) -> RunRow:
    address, now = new.address, tables.clock.now()
    fresh = ConversationRow(address.conversation, address.channel, address.principal, address.contact)
    conversation = tables.conversations.setdefault(address.conversation, fresh)
    conversation.contact = address.contact
    conversation.last_ordinal += 1
    return RunRow(
        id=new.id,
        conversation=address.conversation,
        ordinal=conversation.last_ordinal,
        kind=new.kind,
        source=new.source,
        tier=new.tier,
        principal=address.principal,
        sender=new.sender,
        message=as_json(message_document(new)),
        accepted_at=now,
        deadline_at=now + new.deadline,
        traceparent=new.traceparent,
        when_busy=new.when_busy,
        webhook=new.webhook,
        retry_of=new.retry_of,
    )


def _interrupt(tables: Tables, head: RunRow) -> UUID | None:
    """End what was begun; returns it when its worker is to do that."""
    if head.state == "waiting":
        end_from_outside(tables, head, "cancelled", INTERRUPTED)
    if head.state != "running":
        return None
    head.cancel_asked_at = head.cancel_asked_at or tables.clock.now()
    head.cancel_reason = head.cancel_reason or INTERRUPTED
    return head.id


def _accepted(run: RunRow, *, created: bool, cancels: UUID | None = None) -> Accepted:
    return Accepted(run.id, run.conversation, run.ordinal, run.state, created, into=run.merged_into, cancels=cancels)
