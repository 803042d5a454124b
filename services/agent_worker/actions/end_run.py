"""The ends of a run: what is stored, what goes out, and what is told once it is stored.

All return whether more waits in the conversation, and raise ``LostClaim`` when nothing was written.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog

from services.agent_worker.actions.ask_model import left_open
from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.rules import compaction
from services.agent_worker.rules.history import closing_rows, unanswered_results
from services.agent_worker.rules.run_loop import EMPTY_NOTICE, Finish, Reply, compose_reply
from services.agent_worker.rules.silence import is_silent
from shared.domain.attachment import is_voice, told_line
from shared.domain.chat import BlobBlock, Message
from shared.domain.delivery import is_carried
from shared.domain.delivery import parts as in_parts
from shared.domain.outgoing_file import OutgoingFile, fits_below, outgoing
from shared.domain.run import Ending, RunState, SessionAfter, Settlement, Stored, Write
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.runs import FinishedRun

log = structlog.get_logger(__name__)


async def finish_run(
    attempt: Attempt, finish: Finish, messages: Sequence[Message], settlement: Settlement | None
) -> bool:
    """End the run with its reply; ``messages`` and ``settlement`` are of an answer that is not stored yet."""
    manner = attempt.desk.manner
    reply = compose_reply(
        attempt.said, finish.reason, max_turns=attempt.limits.max_turns, why_empty=attempt.notices[-1:]
    )
    if attempt.claim.child is not None and reply.text == EMPTY_NOTICE:
        reply = Reply("")  # whoever asked for it has words of its own for that
    rows = list(messages)
    if finish.unanswered is not None:
        rows.append(unanswered_results(finish.unanswered, f"Error: not run. {' '.join(reply.notices)}"))
        rows.append({"role": "assistant", "text": reply.notices[-1]})
    attempt.notices.extend(reply.notices)
    settlement = settlement or left_open(attempt)
    silent = is_silent(reply.text, manner.silent_tokens)
    for notice in reply.notices:
        attempt.teller.event("notice", {"text": notice})
    return await _end(attempt, "done", rows, settlement, {"reply": reply.text, "silent": silent})


async def fail_run(attempt: Attempt, reason: str, settlement: Settlement | None, *, own_words: bool = False) -> bool:
    """Nothing done yet: as if never said. Else history is closed, so that the next message finds it whole.

    ``own_words``: the reason says it better than the operator's sentence about trouble, which asks to try again.
    """
    attempt.teller.event("notice", {"text": reason})
    rows = closing_rows(attempt.said, reason)
    settlement = settlement or left_open(attempt)
    if settlement is not None:
        attempt.paid(settlement)
    outcome = {"reply": "", "error": reason}
    if not own_words:
        outcome["error_message"] = attempt.desk.manner.error_message
    return await _end(attempt, "failed", rows, settlement, outcome, drop=not attempt.said)


async def end_stopped(attempt: Attempt, reason: str) -> bool:
    """End the run because somebody asked for it; what it has done so far stands."""
    attempt.teller.event("notice", {"text": reason})
    rows = closing_rows(attempt.said, reason)
    settlement = left_open(attempt)
    if settlement is not None:
        attempt.paid(settlement)
    return await _end(
        attempt, "cancelled", rows, settlement, {"reply": "", "error": reason}, drop=not attempt.said, parts=()
    )


async def end_with_words(attempt: Attempt, text: str, attachments: Sequence[BlobBlock] = ()) -> bool:
    """End the run with words that are given, and that no model was asked for, and with what comes with them.

    A text that fits stands below the file it comes with, if that is one only; else the files follow it. The session
    remembers each file by a line.
    """
    caption = text if len(attachments) == 1 and fits_below(text) else ""
    files = [outgoing(block, is_voice=is_voice(block), caption=caption) for block in attachments]
    carried = is_carried(attempt.claim.channel)
    parts = in_parts(text, limit=attempt.desk.manner.part_limit) if carried and not caption else ()
    words = [text] * bool(text) + [told_line(each) for each in attachments]
    said: Message = {"role": "assistant", "text": "\n".join(words)}
    return await _end(attempt, "done", [said], None, {"reply": text, "silent": False}, parts=parts, files=files)


async def _end(
    attempt: Attempt,
    state: RunState,
    rows: Sequence[Message],
    settlement: Settlement | None,
    said: dict[str, Any],
    *,
    drop: bool = False,
    parts: Sequence[str] | None = None,
    files: Sequence[OutgoingFile] = (),
) -> bool:
    claim = attempt.claim
    outcome = {**said, **_account(attempt), "state": state}
    terminal = terminal_id(claim.epoch)
    session, compact = _session_after(attempt)
    if parts is None and is_carried(claim.channel):
        parts = _parts(attempt, outcome)
    stored = await attempt.store(
        Write(
            id=new_id(),
            run=claim.run,
            messages=rows,
            settle=settlement,
            results=attempt.results,
            told=attempt.teller.told(),
            unbegun=attempt.unbegun,
            ending=Ending(
                state, outcome, terminal, session=session, drop=drop, compact=compact, parts=parts, files=files
            ),
        )
    )
    tell_end(attempt, stored, terminal, outcome)
    attempt.teller.monitor(state="idle", tools_in_flight="")
    attempt.dropped = attempt.dropped or drop
    log.info(
        "run_finished",
        run=str(claim.run),
        state=state,
        epoch=claim.epoch,
        attempt=claim.attempts,
        cost=str(attempt.cost),
        turns=outcome["turns"],
    )
    return stored.more


def _parts(attempt: Attempt, outcome: Mapping[str, Any]) -> list[str]:
    """What the channel carries: the reply or why there is none, and what else its person must know."""
    if outcome["state"] == "done":
        text = "" if outcome.get("silent") else str(outcome["reply"])
    else:
        text = str(outcome.get("error_message") or outcome["error"])
    told = [text, *(notice for notice in attempt.notices if notice not in text)]
    return in_parts("\n\n".join(part for part in told if part), limit=attempt.desk.manner.part_limit)


def tell_end(attempt: Attempt, stored: Stored, terminal: str, outcome: Mapping[str, Any]) -> None:
    """Tell the end of a run, and of those that ended with it. Only what is committed is told."""
    claim, outlet = attempt.claim, attempt.desk.outlet
    final = stored.outcome or outcome
    outlet.finish(FinishedRun(claim.run, claim.conversation, terminal, final, attempt.teller.last))
    for follower in stored.followers:
        followed = {**final, "run_id": str(follower), "merged_into": str(claim.run)}
        outlet.finish(FinishedRun(follower, claim.conversation, terminal, followed))
    if is_carried(claim.channel):
        outlet.nudge(claim.channel)


def _account(attempt: Attempt) -> dict[str, Any]:
    claim, usage = attempt.claim, attempt.usage
    return {
        "run_id": str(claim.run),
        "session_id": str(claim.session.id),
        "conversation": claim.conversation,
        "sender": claim.sender,
        "source": claim.source,
        "tokens": {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
        },
        # JSON has no decimals; the digits are those of the exact figure in the table of costs.
        "cost": float(attempt.cost),
        "currency": attempt.model.spec.rates.currency,
        "model": attempt.model.spec.model if _asks_a_model(attempt) else None,
        "turns": sum(1 for message in attempt.said if message["role"] == "assistant"),
        "notices": list(attempt.notices),
    }


def _asks_a_model(attempt: Attempt) -> bool:
    return attempt.claim.kind != "outbound"


def _session_after(attempt: Attempt) -> tuple[SessionAfter | None, UUID | None]:
    """The warning at 80 % and the compaction that stands next in line, both in the transaction of the end."""
    if not _asks_a_model(attempt):
        return None, None
    manner, session = attempt.desk.manner.compaction, attempt.claim.session
    context = attempt.context_tokens or session.context_tokens
    warn = compaction.warning_due(
        context_tokens=context, threshold=manner.threshold, warning_share=manner.warning_share, warned=session.warned
    )
    due = compaction.compaction_due(
        context_tokens=context, threshold=manner.threshold, compact_above=session.compact_above
    )
    warning = None
    if warn and not due:
        warning = compaction.warning_text(context_tokens=context, threshold=manner.threshold)
    after = SessionAfter(
        context, attempt.model.spec.model, session.warned or warn, warning, compact_above=session.compact_above
    )
    compacts = due and attempt.claim.kind == "message" and attempt.claim.child is None  # a child says nothing after it
    return after, new_id() if compacts else None
