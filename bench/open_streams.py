"""Streams that are open while nothing happens: what each costs the gateway in memory, and all of them in CPU.

``python -m bench.open_streams`` measures nothing else, in half a minute. Ten conversations have a run at a model that
takes its time; behind it their other messages wait in line, and every run is followed by a client of its own. When
that was measured, a few more people come and are answered, so that it shows what the silent streams cost the others.
Then what holds the line up is cancelled, everything is answered, and every stream must end as it should.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from bench.cells import Result, seeded, warm_up
from bench.figures import spread
from bench.load import Tally, followed
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.processes import used_between
from bench.town import Town, open_town
from bench.watching import ModelNotes, hops
from bench.wire import Mark, message_text, reply_text

STREAMS = 500
IDLE = 1000
WARM_UP = 50
LINES = 10
"""Conversations that the streams are of; each has one run at the model, which says next to nothing meanwhile."""

QUIET_SECONDS = 20.0
SETTLES_WITHIN = 3.0
SLOW_MS = 99_999
ACTIVE = 50
ACTIVE_RUNS = 100
ACTIVE_MS = 2000
AT_ONCE = 25
OPENS_WITHIN = 60.0
ENDS_WITHIN = 120.0
HARNESS = ("load", "model_server")


@dataclass
class _Streams:
    """Clients that follow one run each. ``runs`` are the first ones of their conversations, which hold up the rest."""

    town: Town
    senders: Sequence[str]
    runs: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def open(self, count: int) -> None:
        """Open so many more, a few at a time; returns when each knows its run. Raises ``TimeoutError``."""
        async with asyncio.timeout(OPENS_WITHIN):
            for begin in range(0, count, AT_ONCE):
                opened = [self._open_one(len(self.tasks)) for _ in range(min(AT_ONCE, count - begin))]
                await asyncio.gather(*opened)

    async def end(self) -> None:
        """Cancel what holds up the lines; returns when every stream has ended. Raises ``TimeoutError``."""
        async with asyncio.timeout(ENDS_WITHIN):
            async with self.town.gate.line() as line:
                for held in self.runs:
                    status, body = await line.post(f"/api/v1/runs/{held}/cancel", {})
                    if status not in {200, 202}:
                        self.wrong.append(f"cancel answered {status}: {body[:200]!r}")
            await asyncio.gather(*self.tasks)

    def _open_one(self, number: int) -> asyncio.Future[None]:
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        first = number < len(self.senders)
        sender = self.senders[number % len(self.senders)]
        self.tasks.append(asyncio.create_task(self._follow(sender, opened, first=first)))
        return opened

    async def _follow(self, sender: str, opened: asyncio.Future[None], *, first: bool) -> None:
        mark = Mark(self.town.tokens.next(), SLOW_MS if first else 0, 0)
        last, reply = "", ""
        try:
            async with self.town.gate.line() as line:
                message = {"message": message_text(mark), "sender": sender}
                async for kind, data in line.stream("/api/v1/chat/stream", message):
                    last, told = kind, orjson.loads(data)
                    if kind == "accepted":
                        if first:
                            self.runs.append(told["run_id"])
                        opened.set_result(None)
                    reply = told.get("reply", "") or ""
        except OSError as fault:
            self.wrong.append(f"{mark.token}: the stream broke ({fault})")
            if not opened.done():
                opened.set_exception(fault)
            return
        if last != ("cancelled" if first else "done") or (not first and reply != reply_text(mark.token)):
            self.wrong.append(f"{mark.token}: the stream ended with {last} {reply[:100]!r}")


async def measure_open_streams(
    town: Town, *, streams: int = STREAMS, idle: int = IDLE, seconds: float = QUIET_SECONDS
) -> Result:
    """Memory of a stream in kB and CPU of the gateway and of all while nothing happens, in percent of a core.

    It takes a fresh gateway. ``stream_hop_ms`` is of fifty others who are answered meanwhile, at a model that says a
    piece every 200 ms.
    """
    town.have_workers(0)
    town.open_anew()
    town.have_workers(2)
    seeded(town, idle)
    await warm_up(town, 40)
    town.tidy_up()
    begun = _Streams(town, seeded(town, LINES))
    await begun.open(WARM_UP)
    await asyncio.sleep(SETTLES_WITHIN)
    few = town.gateway_resident()
    await begun.open(streams - WARM_UP)
    await asyncio.sleep(SETTLES_WITHIN)
    many = town.gateway_resident()
    before = town.cpu()
    await asyncio.sleep(seconds)
    used = used_between(before, town.cpu())
    notes, senders = ModelNotes(town.model_url), seeded(town, ACTIVE)
    await notes.take()
    tally, seen = await _active(town, senders)
    samples = hops(await notes.take(), seen)
    await begun.end()
    town.check_alive()
    percent = {name: 100 * spent / seconds for name, spent in used.items()}
    figures = {
        "kb_per_stream": (many - few) / (streams - WARM_UP) / 1000,
        "gateway_idle_percent": percent["gateway"],
        "all_idle_percent": sum(share for name, share in percent.items() if name not in HARNESS),
        "idle_percent": percent,
        **({"stream_hop_ms": spread(samples)} if samples else {}),
    }
    raw = {"hops_ms": samples, "gateway_bytes": [few, many], "streams": streams, "idle_conversations": idle}
    return Result("open-streams", figures, [*begun.wrong, *tally.wrong], raw)


async def _active(town: Town, senders: Sequence[str]) -> tuple[Tally, dict[str, list[int]]]:
    """They begin one after the other: people don't speak in time with each other."""
    whole, seen = Tally(), dict[str, list[int]]()

    async def one(number: int) -> None:
        await asyncio.sleep(ACTIVE_MS / 1000 * number / ACTIVE)
        tally, its = await followed(
            town.gate,
            senders[number : number + 1],
            sessions=1,
            runs=ACTIVE_RUNS // ACTIVE,
            latency_ms=ACTIVE_MS,
            tokens=town.tokens,
        )
        whole.asks.extend(tally.asks)
        whole.wrong.extend(tally.wrong)
        seen.update(its)

    await asyncio.gather(*(one(number) for number in range(ACTIVE)))
    return whole, seen


def lines_of(result: Result) -> Sequence[str]:
    """The figures for people."""
    figures = result.figures
    hop = figures.get("stream_hop_ms", {})
    shares = ", ".join(f"{name} {share:.2f}" for name, share in figures["idle_percent"].items())
    return [
        f"memory of the gateway for a stream    {figures['kb_per_stream']:.1f} kB",
        f"CPU of the gateway, nothing happens   {figures['gateway_idle_percent']:.2f} % of a core",
        f"CPU of all processes, the same        {figures['all_idle_percent']:.2f} %   ({shares})",
        f"hop of others meanwhile, p50 / p99    {hop.get('p50', 0):.1f} / {hop.get('p99', 0):.1f} ms",
        *(f"wrong: {sentence}" for sentence in result.wrong[:20]),
    ]


def main(words: Sequence[str]) -> int:
    """Measure; 0 when every stream ended as it should."""
    parser = argparse.ArgumentParser(prog="bench-streams", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=int, default=STREAMS, help="how many streams are open")
    parser.add_argument("--idle", type=int, default=IDLE, help="how many conversations are merely stored")
    parser.add_argument("--seconds", type=float, default=QUIET_SECONDS, help="how long nothing happens")
    asked = parser.parse_args(words)
    with logs_folder("streams") as logs:
        with open_town(logs.path) as town:
            result = run(measure_open_streams(town, streams=asked.streams, idle=asked.idle, seconds=asked.seconds))
        logs.was_right = not result.wrong
    sys.stdout.write("\n".join(lines_of(result)) + "\n")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
