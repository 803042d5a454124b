"""A worker goes away with runs in hand: how long until its conversations are with the model again."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Sequence

import psycopg

from bench.cells import Result, seeded
from bench.figures import spread
from bench.http_line import HttpLine
from bench.load import Gate, Tally, ask
from bench.town import Town
from bench.watching import ModelNotes
from bench.wire import Mark
from tests.stack import Process

IN_HAND_MS = 6000
"""The first answer takes so long that everything is still in hand at the blow; the second one is quick."""

AGAIN_MS = 200
HEARD_WITHIN = 20.0
TAKEN_WITHIN = 60.0

_OWNED = """
select conversations.key, workers.pid from conversations join workers on workers.id = conversations.owner
  where conversations.key = any(%s::text[])
"""


async def measure_takeover(town: Town, *, in_hand: int, other_host: bool) -> Result:
    """Hit the worker that has most in hand, wait until all its conversations were asked for again, check all replies.

    SIGKILL, which its peers on the same machine see by its process being gone. With ``other_host`` SIGSTOP: the process
    stays and only its beat tells, as for a worker of another machine; it is killed when all is over.
    """
    notes, tally = ModelNotes(town.model_url), Tally()
    senders = seeded(town, in_hand)
    marks = {sender: Mark(town.tokens.next(), IN_HAND_MS, AGAIN_MS) for sender in senders}
    asking = asyncio.gather(*(_ask_alone(town.gate, sender, mark, tally) for sender, mark in marks.items()))
    await notes.until_heard([mark.token for mark in marks.values()], within=HEARD_WITHIN)
    victim, orphans = _choose(town, senders)
    victim.popen.send_signal(signal.SIGSTOP if other_host else signal.SIGKILL)
    blow = time.monotonic_ns()
    try:
        again = await notes.until_heard([marks[each].token for each in orphans], within=TAKEN_WITHIN, after=blow)
    finally:
        victim.kill()
        town.workers.remove(victim)
        await asking
    samples = [(moment - blow) / 1e9 for moment in again.values()]
    name = "takeover-other-host" if other_host else "takeover"
    missing = in_hand - len(tally.asks) - len(tally.wrong)
    wrong = [*tally.wrong, *([f"{missing} messages had no end"] if missing else [])]
    return Result(name, {"takeover_s": spread(samples)}, wrong, {"seconds": samples})


async def _ask_alone(gate: Gate, sender: str, mark: Mark, tally: Tally) -> None:
    line: HttpLine
    async with gate.line() as line:
        await ask(line, sender, mark, tally)


def _choose(town: Town, senders: Sequence[str]) -> tuple[Process, Sequence[str]]:
    """The worker with most of these conversations, and who they are of."""
    prefix = "http:default:"
    with psycopg.connect(town.stack.database_url) as connection:
        owned = connection.execute(_OWNED, [[prefix + sender for sender in senders]]).fetchall()
    ((pid, _),) = Counter(pid for _, pid in owned).most_common(1)
    victim = next(worker for worker in town.workers if worker.popen.pid == pid)
    return victim, [key.removeprefix(prefix) for key, owner in owned if owner == pid]
