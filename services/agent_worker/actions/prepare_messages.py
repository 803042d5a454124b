"""Let plugins read what came with a message before the model does: once, and stored before it is gone on."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import structlog

from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.ports import IncomingFile, Preprocessors
from services.agent_worker.rules.history import readable
from services.agent_worker.rules.prepared import Part, content_of, first_blob, parts_of, unprepared
from shared.domain.attachment import is_voice
from shared.domain.chat import Message, UserMessage

log = structlog.get_logger(__name__)


async def prepare_history(attempt: Attempt) -> None:
    """Prepare what this run was asked, where nobody has yet. Raises ``NotPrepared``, ``LostClaim`` and ``TryLater``."""
    if attempt.desk.preparing is None:
        return
    rows = list(attempt.rows)
    for position, row in enumerate(rows):
        if row.run != attempt.claim.run or (message := unprepared(row.body)) is None:
            continue
        prepared = await prepared_message(attempt, message)
        if prepared is not message:
            rows[position] = replace(row, body=prepared)
            before, after = readable(message), readable(prepared)
            attempt.history[:] = [after if said == before else said for said in attempt.history]
    attempt.rows = rows


async def prepared_message(attempt: Attempt, message: Message) -> Message:
    """The message as a model shall read it, stored so; itself where nobody has anything to read in it."""
    preparing, claim = attempt.desk.preparing, attempt.claim
    if preparing is None or (asked := unprepared(message)) is None:
        return message
    content = asked["content"]
    assert not isinstance(content, str)  # noqa: S101 - unprepared messages have blocks
    parts = parts_of(content)
    if not any(preparing.preprocessors.wants(block["content_type"]) for part in parts for block in part.blobs):
        return message
    attempt.teller.monitor(state="preparing")
    done = [await _prepared(attempt, preparing.preprocessors, part) for part in parts]
    new: UserMessage = {**asked, "content": content_of(done), "prepared": True}
    await preparing.kept.keep(
        claim.conversation,
        worker=attempt.desk.worker,
        epoch=claim.epoch,
        run=claim.run,
        blob=first_blob(asked),
        content=content_of(done),
    )
    attempt.dropped = True  # what is remembered of the conversation is of before: it is read anew next time
    log.info("message_prepared", run=str(claim.run), taken=sum(len(taken) for _, _, taken in done))
    return new


async def _prepared(attempt: Attempt, preprocessors: Preprocessors, part: Part) -> tuple[Part, str, Sequence[str]]:
    wanted = [block for block in part.blobs if preprocessors.wants(block["content_type"])]
    loaded = await attempt.desk.blobs.load([UUID(block["id"]) for block in wanted]) if wanted else {}
    files = [
        IncomingFile(block["id"], block["content_type"], block["filename"], loaded[UUID(block["id"])], is_voice(block))
        for block in wanted
        if UUID(block["id"]) in loaded
    ]
    if not files:
        return part, part.text, ()
    result = await preprocessors.prepare(part.text, files)
    return part, result.text, result.taken
