"""Ask the model once, over passing faults; every request to a provider has one reservation and one settlement."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID

import structlog

from services.agent_worker.actions.attempt import Attempt, Suspend
from services.agent_worker.actions.let_through import StillOut, let_through
from services.agent_worker.actions.show_images import show_images
from services.agent_worker.rules.backoff import pause_before_retry
from services.agent_worker.rules.tool_output import storable
from shared.domain.chat import Message, SystemBlock
from shared.domain.effect import ToolSpec
from shared.domain.money import Usage
from shared.domain.run import Reservation, Route, Settlement, Waiting, Write
from shared.domain.trace_context import carried_on, span_of
from shared.errors import GiveUp, ModelRejected, ModelTimeout, TryLater
from shared.ids import new_id
from shared.ports.model import DeltaKind, Model, ModelAnswer, ModelRequest

log = structlog.get_logger(__name__)

CHARACTERS_A_TOKEN = 4
LONGEST_PAUSE_IN_HAND = timedelta(seconds=20)
"""A run that must pause for longer gives its slot up and is found again when its time has come."""

FOR_OTHERS = timedelta(seconds=5)
"""So long a run stays away that has given its slot up because others may be about to spend the money it shares."""


class CallFailed(Exception):
    """The model could not be made to answer; ``settlement`` is what the last try may have cost."""

    def __init__(self, message: str, settlement: Settlement) -> None:
        super().__init__(message)
        self.settlement = settlement


async def ask_model(
    attempt: Attempt,
    system: Sequence[SystemBlock],
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    call_type: Literal["agentic", "compaction"] = "agentic",
    max_tokens: int | None = None,
) -> tuple[ModelAnswer, Settlement]:
    """The answer, and what it cost (not stored yet); ``max_tokens`` as in ``ModelRequest``.

    Raises ``CallFailed``, ``OutOfMoney``, ``LostClaim``, ``HandBack``, and ``Suspend`` when the provider wants a long
    pause, or those that spend the same money do.
    """
    desk, manner = attempt.desk, attempt.desk.manner
    while True:
        shown = await show_images(attempt, messages)
        await attempt.before_acting()
        call_id = await _call_let_through(attempt)
        attempt.call_id = None  # from here on it is a call that may be out
        heard = _Heard(attempt, aloud=call_type == "agentic")
        started = desk.clock.monotonic()
        trace = carried_on(attempt.claim.traceparent, span_of(call_id))
        request = ModelRequest(call_id, system, shown, tools, manner.call_timeout, max_tokens, trace)
        try:
            answer = await attempt.model.answer(request, heard.piece)
        except TryLater as fault:
            settlement = _settle(attempt, call_id, call_type, heard.guess(messages), started, estimated=True)
            attempt.unsettled = settlement
            if attempt.tried >= manner.retries:
                raise CallFailed(f"The model could not be reached: {fault}", settlement) from fault
            pause = _announce_retry(attempt, fault)
            if pause >= attempt.claim.time_left.total_seconds():
                reason = f"The model asks to wait for longer than this may take: {fault}"
                raise CallFailed(reason, settlement) from fault
            if pause > LONGEST_PAUSE_IN_HAND.total_seconds():
                waiting = Waiting("retry", wake_in=timedelta(seconds=pause), retries=attempt.tried)
                raise Suspend(waiting, settlement) from fault
            await desk.clock.sleep(pause)
            await _reserve_anew(attempt, settlement)
        except GiveUp as fault:
            if isinstance(fault, ModelRejected) and fault.of_content and attempt.images and not heard.anything:
                log.warning("images_refused", run=str(attempt.claim.run), images=len(attempt.images), reason=str(fault))
                attempt.refused |= frozenset(attempt.images)
                attempt.unsettled = _settle(attempt, call_id, call_type, Usage(), started, estimated=True)
                await _reserve_anew(attempt, attempt.unsettled)
                continue
            usage = heard.guess(messages, read=isinstance(fault, ModelTimeout))
            attempt.unsettled = _settle(attempt, call_id, call_type, usage, started, estimated=True)
            raise CallFailed(str(fault), attempt.unsettled) from fault
        except BaseException:
            # The run's time is over, or the fault is our own: the call is out all the same, and may be billed.
            usage = heard.guess(messages, read=True)
            attempt.unsettled = _settle(attempt, call_id, call_type, usage, started, estimated=True)
            raise
        else:
            attempt.unsettled = _settle(attempt, call_id, call_type, answer.usage, started, estimated=False)
            attempt.tried = 0
            desk.refused.add(attempt.model.spec.model, attempt.refused)  # without them it is answered, so it was them
            return answer, attempt.unsettled


async def _call_let_through(attempt: Attempt) -> UUID:
    """A call that money is set aside for and that may go out now."""
    call_id = attempt.call_id or await _reserve_anew(attempt, None)
    try:
        await let_through(attempt, call_id, patience=LONGEST_PAUSE_IN_HAND)
    except StillOut:
        waiting = Waiting("retry", wake_in=FOR_OTHERS, retries=attempt.tried)
        raise Suspend(waiting, nothing_bought(attempt, call_id)) from None
    return call_id


def _announce_retry(attempt: Attempt, fault: TryLater) -> float:
    """Tell that the call is tried again; after how many seconds."""
    desk = attempt.desk
    pause = pause_before_retry(
        attempt.tried, base=desk.manner.retry_base, after=fault.after, chance=desk.chance.random()
    )
    attempt.tried += 1
    seconds = round(pause, 2)
    log.info("model_retry", run=str(attempt.claim.run), attempt=attempt.tried, seconds=seconds, reason=str(fault))
    attempt.teller.event(
        "retry", {"attempt": attempt.tried, "wait_seconds": seconds, "reason": str(fault), "keep": attempt.keep}
    )
    attempt.teller.monitor(state="retry_wait")
    return pause


class _Heard:
    """What was heard of an answer that may yet break off."""

    def __init__(self, attempt: Attempt, *, aloud: bool) -> None:
        self._attempt = attempt
        self._aloud = aloud
        self._characters = 0

    def piece(self, kind: DeltaKind, text: str) -> None:
        self._characters += len(text)
        if self._aloud:
            self._attempt.teller.piece(kind, storable(text))

    @property
    def anything(self) -> bool:
        """Whether a word came."""
        return self._characters > 0

    def guess(self, messages: Sequence[Message], *, read: bool = False) -> Usage:
        """Nothing heard: a refused call is free. Heard of, or surely ``read``: guess at four characters a token."""
        if self._characters == 0 and not read:
            return Usage()
        asked = sum(len(str(message)) for message in messages)
        return Usage(input=asked // CHARACTERS_A_TOKEN, output=self._characters // CHARACTERS_A_TOKEN)


async def _reserve_anew(attempt: Attempt, failed: Settlement | None) -> UUID:
    """Book the failed try and set money aside for the next one, in one transaction."""
    call_id = attempt.call_id = new_id()  # known before it is stored, so that a stop in between leaves nothing open
    if failed is not None:
        attempt.paid(failed)
    reserve = Reservation(call_id, route_of(attempt.model))
    await attempt.store(Write(id=new_id(), run=attempt.claim.run, settle=failed, reserve=reserve))
    return call_id


def route_of(model: Model) -> Route:
    """The model's name, and the most that one call of it may cost: a full window in, everything allowed out."""
    spec = model.spec
    output = spec.max_tokens + (spec.thinking_budget if spec.thinking_mode == "budgeted" else 0)
    worst_case = spec.rates.worst_case(context=spec.max_context_tokens or UNKNOWN_WINDOW, output=output)
    return Route(spec.name, worst_case, spec.rates.currency)


UNKNOWN_WINDOW = 200_000
"""Tokens; taken as the context window of a model whose own is not configured."""


def _settle(
    attempt: Attempt,
    call_id: UUID,
    call_type: Literal["agentic", "compaction"],
    usage: Usage,
    started: float,
    *,
    estimated: bool,
) -> Settlement:
    claim, spec = attempt.claim, attempt.model.spec
    rates = spec.rates
    return Settlement(
        call_id=call_id,
        run=claim.run,
        conversation=claim.conversation,
        session=claim.session.id,
        principal=claim.principal,
        call_type=call_type,
        provider=spec.provider,
        model=spec.model,
        usage=usage,
        rates=rates.prices,
        cost=rates.cost(usage),
        currency=rates.currency,
        latency=timedelta(seconds=attempt.desk.clock.monotonic() - started),
        estimated=estimated,
    )


def left_open(attempt: Attempt) -> Settlement | None:
    """What closes the last reservation when an attempt stops early: a call that is out, or one never made."""
    if attempt.unsettled is not None:
        return attempt.unsettled
    return nothing_bought(attempt, attempt.call_id) if attempt.call_id is not None else None


def nothing_bought(attempt: Attempt, call_id: UUID) -> Settlement:
    """Closes a reservation whose call was never made."""
    return _settle(attempt, call_id, "agentic", Usage(), attempt.desk.clock.monotonic(), estimated=False)
