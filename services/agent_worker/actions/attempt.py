"""What one attempt at a run carries from step to step."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from services.agent_worker.actions.desk import Desk
from services.agent_worker.actions.tell import Teller
from services.agent_worker.ports import ResultLater, ToolFailed
from services.agent_worker.rules.history import append_readable
from services.agent_worker.rules.run_loop import Limits
from shared.domain.chat import Message
from shared.domain.effect import ToolSpec
from shared.domain.money import Usage
from shared.domain.run import Claim, EffectResult, Intent, Settlement, Stored, StoredMessage, Waiting, Write
from shared.errors import LostClaim
from shared.ports.acts import Act
from shared.ports.model import Model

PULSE_YOUNGER_THAN = timedelta(seconds=4)
PULSE_WITHIN = timedelta(seconds=60)
LOOK_AGAIN = 0.05
SEEN_TO_ITS_END = timedelta(seconds=5)


class HandBack(Exception):
    """The worker is draining: give the run back between two steps."""


class Suspend(Exception):
    """The run is to wait without owner or slot; ``settlement`` books the call that made it so."""

    def __init__(self, waiting: Waiting, settlement: Settlement | None = None) -> None:
        super().__init__(waiting.reason)
        self.waiting = waiting
        self.settlement = settlement


class Stop:
    """Somebody asks that a run end; ``reason`` is the sentence its person reads."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        self._asked = asyncio.Event()
        if reason is not None:
            self._asked.set()

    def ask(self, reason: str) -> None:
        """End it; the first reason stands."""
        if self.reason is None:
            self.reason = reason
        self._asked.set()

    async def asked(self) -> None:
        """Wait until somebody asks."""
        await self._asked.wait()


@dataclass(slots=True)
class Attempt:
    """One owner's try at a run.

    ``rows`` are the session's live rows as they were claimed; ``history`` is what a model reads of them and grows with
    the run; ``said`` are this run's own messages; ``unsettled`` is a call that was made and is not stored yet.
    ``tried`` counts how often the current call was tried again. ``unbegun``: what was intended for the round of calls
    that stands next was not begun, which only the attempt that intended it can know. ``results`` are those of calls
    that were done when the others of their round were stopped. ``images`` are those that the model was shown last, as
    base64 by the id of their blob; ``refused`` are the ids of those that its provider did not take. ``scope`` are the
    tools that this run may use, all of them where it is ``None``; ``left_by_skills`` tells which of those the skills in
    use leave, and is ``None`` where they leave all. ``offered`` are those that it could use when it last looked, by
    name: a round of calls goes by that and by nothing that came later. ``intended`` are the classes that this attempt
    has stored for the round in hand, by the index of the call. ``spent_beside`` is what other runs have paid of the
    same money: those that this one asked for, or that it was asked for beside.
    """

    claim: Claim
    desk: Desk
    model: Model
    teller: Teller
    rows: Sequence[StoredMessage]
    history: list[Message]
    said: list[Message]
    step: int
    keep: str
    call_id: UUID | None
    cost: Decimal = Decimal(0)
    usage: Usage = field(default_factory=Usage)
    context_tokens: int = 0
    notices: list[str] = field(default_factory=list)
    cut_short: bool = False
    dropped: bool = False
    unsettled: Settlement | None = None
    tried: int = 0
    unbegun: bool = False
    results: Sequence[EffectResult] = ()
    stop: Stop = field(default_factory=Stop)
    booked: set[UUID] = field(default_factory=set)
    images: Mapping[str, str] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    scope: Collection[str] | None = None
    left_by_skills: Callable[[str], bool] | None = None
    offered: Mapping[str, ToolSpec] = field(default_factory=dict)
    intended: Mapping[int, str] = field(default_factory=dict)
    spent_beside: Decimal = Decimal(0)

    def remember(self, message: Message) -> None:
        """A message of this run is about to be stored."""
        self.said.append(message)
        append_readable(self.history, message)

    def paid(self, settlement: Settlement) -> None:
        """A call of this run was billed; told twice, it counts once."""
        if settlement.call_id in self.booked:
            return
        self.booked.add(settlement.call_id)
        self.cost += settlement.cost
        self.usage += settlement.usage
        if settlement.usage.context:
            self.context_tokens = settlement.usage.context

    async def store(self, write: Write) -> Stored:
        """Store under the claim. Raises ``LostClaim``.

        Cancelled, it first sees the write to its end: what is said next must fit what is stored. An end that was stored
        so is the end, and is told as if nobody had cancelled.
        """
        claim = self.claim
        storing = asyncio.ensure_future(
            self.desk.runs.store(claim.conversation, worker=self.desk.worker, epoch=claim.epoch, write=write)
        )
        try:
            stored = await asyncio.shield(storing)
        except asyncio.CancelledError:
            await asyncio.wait({storing}, timeout=SEEN_TO_ITS_END.total_seconds())
            if not storing.done() or storing.cancelled() or storing.exception() is not None:
                storing.cancel()
                raise
            self._is_stored(write)
            if write.ending is None:
                raise
            return storing.result()
        self._is_stored(write)
        return stored

    def _is_stored(self, write: Write) -> None:
        """What this attempt goes on from; clients of a later one keep everything up to here."""
        if write.settle is not None and write.settle == self.unsettled:
            self.unsettled = None
        if write.step is not None:
            self.step, self.keep = write.step, write.keep or self.keep
            self.teller.step_stored(write.step)

    @property
    def limits(self) -> Limits:
        """How far this run may go."""
        limits, child = self.desk.manner.limits, self.claim.child
        return limits if child is None else replace(limits, max_turns=child.max_turns)

    @property
    def spent(self) -> Decimal:
        """What was paid of the money of this message."""
        return self.cost + self.spent_beside

    def look(self) -> None:
        """See which tools this run may use now. They come and go; what it goes by stays until it looks again."""
        self.offered = {spec.name: spec for spec in self.desk.toolbox.specs() if self._may_use(spec.name)}

    def specs(self) -> Sequence[ToolSpec]:
        """The tools that this run may use, as it last saw them."""
        return tuple(self.offered.values())

    def spec(self, name: str) -> ToolSpec | None:
        """The tool of that name, if it is one of them."""
        return self.offered.get(name)

    def has_intended(self, intents: Sequence[Intent]) -> None:
        """They are stored, for the round that stands next."""
        self.intended = {**self.intended, **{intent.call_index: intent.effect for intent in intents}}

    def _may_use(self, name: str) -> bool:
        """A scope is only ever narrowed: what a skill allows and the run may not use stays out of reach."""
        in_scope = self.scope is None or name in self.scope
        return in_scope and (self.left_by_skills is None or self.left_by_skills(name))

    async def act(self, step: int, call_index: int, name: str, arguments: Mapping[str, Any]) -> str:
        """Do what changes Postgres alone, in one transaction with its result; the text for the model.

        Raises ``ToolFailed`` where it was refused, ``ResultLater`` where its result is yet to come, ``LostClaim`` and
        ``TryLater``.
        """
        claim, desk = self.claim, self.desk
        answer = await desk.acts.act(
            Act(claim.conversation, desk.worker, claim.epoch, claim.run, step, call_index, name, arguments)
        )
        for conversation in answer.wake:
            desk.outlet.wake(conversation)
        for channel in answer.nudge:
            desk.outlet.nudge(channel)
        if answer.error is not None:
            raise ToolFailed(answer.error)
        if answer.open:
            raise ResultLater
        return answer.text

    async def before_acting(self) -> None:
        """Wait until this worker is known to be alive; nothing is done outside on an old beat.

        Raises ``LostClaim`` when that can't be known, ``HandBack`` when the worker drains.
        """
        if self.desk.draining.is_set():
            raise HandBack
        await self.pulse_is_young()

    async def pulse_is_young(self) -> None:
        """Wait until this worker is known to be alive. Raises ``LostClaim`` when that can't be known."""
        waited = 0.0
        while self.desk.pulse.age >= PULSE_YOUNGER_THAN:
            if waited >= PULSE_WITHIN.total_seconds():
                raise LostClaim(self.claim.conversation)
            await self.desk.clock.sleep(LOOK_AGAIN)
            waited += LOOK_AGAIN
