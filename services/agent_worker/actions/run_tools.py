"""Run what an answer asked for: all calls at once, each told, each stored so that none is silently repeated."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, cast

import structlog

from services.agent_worker.actions.attempt import Attempt, Suspend
from services.agent_worker.ports import ResultLater, ToolUse
from services.agent_worker.rules.effects import InDoubt, after_interruption, happened
from services.agent_worker.rules.tool_arguments import arguments_hash
from shared.domain.chat import AssistantMessage, ContentBlock, ToolCall, ToolResult
from shared.domain.effect import Verdict
from shared.domain.run import EffectResult, Intent, StoredEffect, Waiting, Write
from shared.ids import new_id

log = structlog.get_logger(__name__)

PREVIEW = 200
CALLS_END_WITHIN = timedelta(seconds=2)


async def intents(attempt: Attempt, calls: Sequence[ToolCall], without: Collection[int], *, step: int) -> list[Intent]:
    """What is written down before the calls of ``step`` run; those that only read, or reach no tool, need nothing.

    Where the run may have to wait for some of them, the results of all others must be kept, and are written down, too.
    ``without`` are calls that may not run, or of which it is written down already.
    """
    written = []
    may_wait = opens(attempt, calls)
    for index, call in enumerate(calls):
        spec = attempt.spec(call["name"])
        if spec is None or index in without or not (may_wait or spec.effect != "read"):
            continue
        proof = await attempt.desk.toolbox.prove(call, _use(attempt, index, step, spec.effect))
        digest = arguments_hash(call["arguments"])
        written.append(Intent(index, call["id"], call["name"], spec.effect, digest, proof))
    return written


def opens(attempt: Attempt, calls: Sequence[ToolCall]) -> bool:
    """Whether a run of its own may answer one of these calls."""
    specs = [attempt.spec(call["name"]) for call in calls]
    return any(spec is not None and spec.opens for spec in specs)


async def run_tools(
    attempt: Attempt, answer: AssistantMessage, stored: Sequence[StoredEffect], denials: Mapping[int, str]
) -> tuple[list[ToolResult], list[EffectResult]]:
    """Results in the order of the calls, and those that are still to be stored with the step.

    ``stored`` is what is known of the effects of a round that was interrupted. ``denials`` are the calls that a person
    did not allow. Raises ``Suspend`` when some are answered by runs of their own, once all others have their results.
    """
    calls = answer.get("tool_calls", [])
    known = {effect.call_index: effect for effect in stored}
    await attempt.before_acting()
    attempt.unbegun = False
    attempt.teller.monitor(state="tools", tools_in_flight=",".join(call["name"] for call in calls))
    rows = {**attempt.intended, **{effect.call_index: effect.effect for effect in stored}}
    round_ = _Round(attempt, len(calls), rows, denials)
    tasks = [asyncio.create_task(round_.run(index, call, known.get(index))) for index, call in enumerate(calls)]
    try:
        results = await asyncio.gather(*tasks)
    except BaseException:
        # A lost claim, or the end of the run's time: no call may outlive the attempt it belongs to.
        for task in tasks:
            task.cancel()
        await _given_up(attempt, tasks)
        attempt.results = round_.unstored
        raise
    answered = [result for result in results if result is not None]
    if len(answered) < len(results):
        if round_.unstored:
            await attempt.store(Write(id=new_id(), run=attempt.claim.run, results=round_.unstored))
        raise Suspend(Waiting("child", retries=attempt.tried))
    return answered, round_.unstored


async def _given_up(attempt: Attempt, tasks: Sequence[asyncio.Task[ToolResult | None]]) -> None:
    """Wait until cancelled calls are over; one that does not heed it must not hold up the end of its run."""
    _, deaf = await asyncio.wait(tasks, timeout=CALLS_END_WITHIN.total_seconds())
    if deaf:
        log.warning("calls_not_stopped", run=str(attempt.claim.run), calls=len(deaf))
    for task in tasks:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks any more


def _use(attempt: Attempt, index: int, step: int, effect: str) -> ToolUse:
    claim = attempt.claim
    key = f"{claim.run}:{step}:{index}"
    act = partial(attempt.act, step, index)
    return ToolUse(
        claim.run,
        claim.session.id,
        claim.conversation,
        key,
        ready=attempt.pulse_is_young,
        act=act,
        scope=frozenset(attempt.offered),
        effect=effect,
        principal=claim.principal,
        sender=claim.sender,
        works_in=claim.child.works_in if claim.child is not None else "",
        contact=claim.contact,
    )


class _Round:
    """One round of calls. A result that comes while others run is stored by itself; the last goes with the step.

    ``rows`` are the classes that calls are stored with. What has none may only read, whatever its tool does by now.
    """

    def __init__(self, attempt: Attempt, calls: int, rows: Mapping[int, str], denials: Mapping[int, str]) -> None:
        self._attempt = attempt
        self._open = calls
        self._rows = rows
        self._denials = denials
        self.unstored: list[EffectResult] = []

    async def run(self, index: int, call: ToolCall, effect: StoredEffect | None) -> ToolResult | None:
        """Its result; ``None`` when that comes later."""
        if index in self._denials:
            self._open -= 1
            return _denied(call, self._denials[index])
        spec = self._attempt.spec(call["name"])
        decision = after_interruption(effect, await self._verdict(call, effect), there=spec.effect if spec else None)
        if decision == "wait":
            self._open -= 1
            return None
        if decision == "reuse" and effect is not None and effect.result is not None:
            self._open -= 1
            if effect.state == "in_doubt":
                self._attempt.notices.append(InDoubt(call["name"], call["id"]).for_person())
            return self._reused(call, effect.result)
        started = self._attempt.desk.clock.monotonic()
        self._tell_start(call)
        state: str = "done"
        if decision == "happened" and effect is not None:
            result = happened(effect)
        elif decision == "in_doubt":
            result, state = self._doubt(call), "in_doubt"
        else:
            use = _use(self._attempt, index, self._attempt.step, self._rows.get(index, "read"))
            try:
                result = await self._attempt.desk.toolbox.use(call, use)
            except ResultLater:
                self._open -= 1
                return None
        self._tell_end(call, result, self._attempt.desk.clock.monotonic() - started)
        self._open -= 1
        if index in self._rows:
            await self._store(EffectResult(index, "in_doubt" if state == "in_doubt" else "done", dict(result)))
        return result

    def _reused(self, call: ToolCall, stored: Mapping[str, Any]) -> ToolResult:
        """A result that was there before. What a child has answered is told now: nobody was there when it came."""
        result, said = _as_result(stored), stored.get("said") or {}
        if "run" in said:
            self._attempt.notices.extend(said.get("notices") or ())
            self._tell_end(call, result, said.get("ms", 0) / 1000)
        return result

    async def _verdict(self, call: ToolCall, effect: StoredEffect | None) -> Verdict | None:
        if effect is None or effect.proof is None or effect.state != "intended":
            return None
        return await self._attempt.desk.toolbox.verify(call, effect.proof)

    async def _store(self, result: EffectResult) -> None:
        self.unstored.append(result)
        if self._open > 0:
            now, self.unstored = self.unstored, []
            await self._attempt.store(Write(id=new_id(), run=self._attempt.claim.run, results=now))

    def _doubt(self, call: ToolCall) -> ToolResult:
        doubt = InDoubt(call["name"], call["id"])
        log.warning("effect_in_doubt", run=str(self._attempt.claim.run), tool=call["name"])
        self._attempt.notices.append(doubt.for_person())
        self._attempt.teller.event(
            "in_doubt", {"tool": call["name"], "call_id": call["id"], "text": doubt.for_person()}
        )
        return doubt.for_model()

    def _tell_start(self, call: ToolCall) -> None:
        data = {"call_id": call["id"], "name": call["name"], "arguments": _preview(call["arguments"])}
        self._attempt.teller.event("tool_started", data)

    def _tell_end(self, call: ToolCall, result: ToolResult, seconds: float) -> None:
        self._attempt.teller.event(
            "tool_finished",
            {
                "call_id": call["id"],
                "name": call["name"],
                "ok": not result.get("is_error", False),
                "duration_ms": round(seconds * 1000),
                "preview": result["content"][:PREVIEW],
            },
        )


def _denied(call: ToolCall, answer: str) -> ToolResult:
    said = f" They said: {answer}" if answer else ""
    return {"tool_use_id": call["id"], "is_error": True, "content": f"Error: the person did not allow this.{said}"}


def _as_result(stored: Mapping[str, object]) -> ToolResult:
    result: ToolResult = {"tool_use_id": str(stored["tool_use_id"]), "content": str(stored["content"])}
    if stored.get("is_error"):
        result["is_error"] = True
    if images := stored.get("images"):
        result["images"] = cast("list[ContentBlock]", images)
    return result


def _preview(arguments: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value)[:PREVIEW] for name, value in arguments.items()}
