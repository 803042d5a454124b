"""One piece of work, measured once."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from bench.figures import spread
from bench.history import seed_conversations
from bench.load import RUNS_PER_CONVERSATION, Tally, closed_loop, followed, open_loop
from bench.plan import HALF_LOAD_SESSIONS, SLOW_MS, Cell
from bench.processes import used_between
from bench.town import Town
from bench.watching import ModelNotes, accepted_at, hops, measured

Load = Callable[[], Awaitable[Tally]]

FOLLOWERS = 8
"""Clients that follow streams at a time: a modest load."""


@dataclass(slots=True)
class Result:
    """Figures of one piece of work, its samples for the raw file, and a sentence for each wrong reply."""

    name: str
    figures: dict[str, Any]
    wrong: list[str] = field(default_factory=list)
    samples: dict[str, Any] = field(default_factory=dict)


def conversations_for(sessions: int, runs: int) -> int:
    """How many conversations such work can need: each session may leave its last one half used."""
    return runs // RUNS_PER_CONVERSATION + sessions


async def warm_up(town: Town, runs: int) -> None:
    """Let new workers import, connect and prepare. Raises ``RuntimeError`` when a reply was wrong."""
    senders = seeded(town, conversations_for(8, runs))
    tally = await closed_loop(town.gate, senders, sessions=8, runs=runs, latency_ms=0, tokens=town.tokens)
    if tally.wrong:
        raise RuntimeError(f"the warm-up went wrong: {tally.wrong[0]}")


async def measure_cell(town: Town, cell: Cell) -> Result:
    """The cell's work, after a short warm-up of its own."""
    await warm_up(town, 20)
    senders = seeded(town, conversations_for(cell.sessions, cell.runs))
    return await _measured_load(
        town,
        cell.name,
        cell.runs,
        lambda: closed_loop(
            town.gate, senders, sessions=cell.sessions, runs=cell.runs, latency_ms=cell.latency_ms, tokens=town.tokens
        ),
    )


async def measure_at_rate(town: Town, *, workers: int, rate: float, runs: int, seed: int) -> Result:
    """Messages that come at random moments, ``rate`` a second on average, to a model of 0.2 s."""
    senders = seeded(town, conversations_for(HALF_LOAD_SESSIONS, runs))
    result = await _measured_load(
        town,
        f"w{workers}-half-load",
        runs,
        lambda: open_loop(
            town.gate,
            senders,
            sessions=HALF_LOAD_SESSIONS,
            runs=runs,
            rate=rate,
            latency_ms=SLOW_MS,
            tokens=town.tokens,
            chance=Random(seed),  # noqa: S311 - the same moments each time
        ),
    )
    result.figures["rate"] = rate
    return result


async def measure_stream(town: Town, runs: int) -> Result:
    """Streams followed by eight clients at a time, of a model that says a piece every 20 ms."""
    senders = seeded(town, conversations_for(FOLLOWERS, runs))
    notes = ModelNotes(town.model_url)
    await notes.take()
    tally, seen = await followed(
        town.gate, senders, sessions=FOLLOWERS, runs=runs, latency_ms=SLOW_MS, tokens=town.tokens
    )
    samples = hops(await notes.take(), seen)
    wrong = _faults(town, tally, runs)
    return Result("stream", {"stream_hop_ms": spread(samples)} if samples else {}, wrong, {"hops_ms": samples})


def seeded(town: Town, count: int) -> Sequence[str]:
    """So many fresh conversations with a past."""
    senders = town.sender_names(count)
    seed_conversations(town.stack.database_url, senders)
    return senders


async def _measured_load(town: Town, name: str, runs: int, load: Load) -> Result:
    notes = ModelNotes(town.model_url)
    await notes.take()
    before = town.cpu()
    tally = await load()
    used = used_between(before, town.cpu())
    receipts = await notes.take()
    wrong = _faults(town, tally, runs)
    if not tally.asks:
        return Result(name, {}, wrong)
    accepted = accepted_at(town.stack.database_url, [ask.run for ask in tally.asks])
    each = measured(tally.asks, receipts, accepted)
    figures = {
        "runs_per_s": len(tally.asks) / tally.seconds,
        "accept_to_model_ms": spread([one.accepted for one in each]),
        "send_to_model_ms": spread([one.asked for one in each]),
        "overhead_ms": spread([one.overhead for one in each]),
        "whole_ms": spread([one.whole for one in each]),
        "cpu_ms_per_run": {process: 1000 * seconds / len(tally.asks) for process, seconds in used.items()},
        "resident_mb": town.resident() / 1e6,
    }
    return Result(name, figures, wrong, {"seconds": tally.seconds, "runs": [asdict(one) for one in each]})


def _faults(town: Town, tally: Tally, runs: int) -> list[str]:
    """The wrong replies, and what was never even asked. Raises ``RuntimeError`` when a process has ended."""
    town.check_alive()
    missing = runs - len(tally.asks) - len(tally.wrong)
    return [*tally.wrong, *([f"{missing} messages were not sent"] if missing else [])]
