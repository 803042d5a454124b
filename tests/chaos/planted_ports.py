"""Faults of the product, put before its ports on purpose: the checker must see each of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from redis.exceptions import ResponseError

from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.domain.run import Write
from shared.messages import routes
from shared.messages.run_events import event_id
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun
from tests.chaos.noted_ports import AlertWakeUps, NotedBulletin, NotedRuns, Through

Planter = Callable[[Any], Any]


def nothing_planted() -> Planter:
    """Leave every port as it is."""
    return lambda port: port


class _WakesNothing(Through):
    async def orphans(self, **_: Any) -> Sequence[str]:
        return ()

    async def is_emptied(self) -> bool:
        return False


def _never_awake() -> Planter:
    """The sweep finds no orphans, and an emptied Redis is not filled again."""
    return lambda port: _WakesNothing(port) if isinstance(port, NotedRuns | NotedBulletin) else port


class _GroupAtTheEnd(RedisWakeUps):
    async def _make_group(self) -> None:
        try:
            await self._client.xgroup_create(routes.INBOUND, routes.WORKERS, id="$", mkstream=True)
        except ResponseError as fault:
            if "BUSYGROUP" not in str(fault):
                raise


def _group_at_the_end() -> Planter:
    """What was added before the group was made is read by nobody."""

    def plant(port: Any) -> Any:
        if isinstance(port, AlertWakeUps):
            port.port.__class__ = _GroupAtTheEnd
        return port

    return plant


class _KeepsTooMuch(Through):
    async def claim(self, conversation: str, **rest: Any) -> Any:
        claim = await self._port.claim(conversation, **rest)
        if not hasattr(claim, "run") or claim.attempts < 2:
            return claim
        return replace(claim, keep=event_id(claim.epoch - 1, claim.step, 2**32 - 2))


def _keeps_too_much() -> Planter:
    """A new attempt tells clients to keep also what its forerunner never stored."""
    return lambda port: _KeepsTooMuch(port) if isinstance(port, NotedRuns) else port


class _KeepsTooLittle(Through):
    async def claim(self, conversation: str, **rest: Any) -> Any:
        claim = await self._port.claim(conversation, **rest)
        return replace(claim, keep="0-1") if hasattr(claim, "run") else claim


def _keeps_too_little() -> Planter:
    """A new attempt tells clients to drop also what is stored."""
    return lambda port: _KeepsTooLittle(port) if isinstance(port, NotedRuns) else port


def _told_before_stored() -> Planter:
    """Publish the end, then commit it."""
    bulletins: list[Any] = []

    class Early(Through):
        async def store(self, conversation: str, *, write: Write, **rest: Any) -> Any:
            if write.ending is not None:
                ending = write.ending
                finished = FinishedRun(write.run, conversation, ending.terminal, ending.outcome)
                await bulletins[0].publish(Batch(finished=[finished]))
            return await self._port.store(conversation, write=write, **rest)

    def plant(port: Any) -> Any:
        if isinstance(port, NotedBulletin):
            raw: RedisBulletin = port.port
            bulletins.append(raw)
        return Early(port) if isinstance(port, NotedRuns) else port

    return plant


class _StoresResultsLate(Through):
    def __init__(self, port: Any) -> None:
        super().__init__(port)
        self._late: dict[Any, Write] = {}

    async def store(self, conversation: str, *, write: Write, **rest: Any) -> Any:
        if write.results and not write.messages and write.step is None:
            held = self._late.get(write.run)
            self._late[write.run] = write if held is None else replace(held, results=[*held.results, *write.results])
            return True
        held = self._late.pop(write.run, None)
        if held is not None:
            write = replace(write, results=[*held.results, *write.results])
        return await self._port.store(conversation, write=write, **rest)


def _results_late() -> Planter:
    """A result that comes while other tools run is stored with the step, and not when it comes."""
    return lambda port: _StoresResultsLate(port) if isinstance(port, NotedRuns) else port


class _StoresNoIntent(Through):
    async def store(self, conversation: str, *, write: Write, **rest: Any) -> Any:
        return await self._port.store(conversation, write=replace(write, intents=()), **rest)


def _no_intent() -> Planter:
    """Tools run without anything written down before."""
    return lambda port: _StoresNoIntent(port) if isinstance(port, NotedRuns) else port


PLANTED_PORTS: Mapping[str, Callable[[], Planter]] = {
    "never-awake": _never_awake,
    "group-at-the-end": _group_at_the_end,
    "keep-too-much": _keeps_too_much,
    "keep-too-little": _keeps_too_little,
    "told-before-stored": _told_before_stored,
    "results-late": _results_late,
    "no-intent": _no_intent,
}
