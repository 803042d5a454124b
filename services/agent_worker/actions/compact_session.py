"""Say the oldest part of a session in fewer words; the rows themselves are kept."""

import structlog

from services.agent_worker.actions.ask_model import UNKNOWN_WINDOW, CallFailed, ask_model, nothing_bought
from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.rules.compaction import DEFAULT_PROMPT, cut_at, next_try_above, transcript
from shared.domain.chat import SystemBlock
from shared.domain.run import Compaction, Ending, RunState, SessionAfter, Settlement, Write
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.runs import FinishedRun

log = structlog.get_logger(__name__)

SAFE_CHARACTERS_A_TOKEN = 2
"""Text has four in the mean; what is summarised must fit the model's window also when it has fewer."""


async def compact_session(attempt: Attempt) -> bool:
    """Compact and store; true when more waits in the conversation. A failed summary leaves everything as it was."""
    claim, manner = attempt.claim, attempt.desk.manner.compaction
    rows = [stored.body for stored in attempt.rows]
    cut = cut_at(rows, keep_share=manner.keep_share, min_messages=manner.min_messages)
    if cut == 0:
        call_id = attempt.call_id
        settlement = nothing_bought(attempt, call_id) if call_id else None
        return await _end(attempt, "done", settlement, None, "too few messages to compact")
    prompt = (manner.prompt or DEFAULT_PROMPT).replace("{agent_name}", attempt.desk.manner.agent_name)
    system: list[SystemBlock] = [{"tier": "stable", "text": prompt.replace("{max_tokens}", str(manner.max_tokens))}]
    window = attempt.model.spec.max_context_tokens or UNKNOWN_WINDOW
    text = transcript(
        claim.session.summary,
        rows[:cut],
        tool_result_chars=manner.tool_result_chars,
        limit=max(1, window - manner.max_tokens) * SAFE_CHARACTERS_A_TOKEN,
    )
    try:
        answer, settlement = await ask_model(
            attempt,
            system,
            [{"role": "user", "content": text}],
            (),
            call_type="compaction",
            max_tokens=manner.max_tokens,
        )
    except CallFailed as fault:
        return await _end(attempt, "failed", fault.settlement, None, str(fault))
    attempt.paid(settlement)
    summary = answer.text.strip()
    if not summary:
        return await _end(attempt, "failed", settlement, None, "the summary came back empty")
    kept_from = attempt.rows[cut].ordinal if cut < len(rows) else claim.session.last_ordinal + 1
    compaction = Compaction(
        summary=summary,
        live_from=kept_from,
        removed_messages=cut,
        summary_tokens=answer.usage.output,
        number=claim.session.compaction_count + 1,
    )
    return await _end(attempt, "done", settlement, compaction, None)


async def _end(
    attempt: Attempt, state: RunState, settlement: Settlement | None, compaction: Compaction | None, reason: str | None
) -> bool:
    claim = attempt.claim
    outcome = {
        "state": state,
        "run_id": str(claim.run),
        "session_id": str(claim.session.id),
        "conversation": claim.conversation,
        "reply": "",
        "compacted": compaction.removed_messages if compaction else 0,
        "cost": float(attempt.cost),
        "currency": attempt.model.spec.rates.currency,
    }
    if reason is not None:
        outcome["error" if state == "failed" else "reason"] = reason
    terminal = terminal_id(claim.epoch)
    after = None
    if state == "failed":
        session = claim.session
        after = SessionAfter(
            session.context_tokens,
            attempt.model.spec.model,
            session.warned,
            compact_above=next_try_above(session.context_tokens),
        )
    ending = Ending(state, outcome, terminal, session=after, compaction=compaction)
    told = attempt.teller.told()
    stored = await attempt.store(Write(id=new_id(), run=claim.run, settle=settlement, told=told, ending=ending))
    attempt.desk.outlet.finish(FinishedRun(claim.run, claim.conversation, terminal, outcome, attempt.teller.last))
    attempt.teller.monitor(state="idle")
    log.info(
        "session_compacted", session=str(claim.session.id), state=state, removed=outcome["compacted"], reason=reason
    )
    return stored.more
