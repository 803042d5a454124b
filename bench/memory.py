"""What a conversation costs in memory while it is being answered."""

import asyncio

from bench.cells import Result, seeded, warm_up
from bench.load import Tally, ask
from bench.town import Town
from bench.watching import ModelNotes
from bench.wire import Mark

ANSWER_MS = 5000
HEARD_WITHIN = 20.0


async def measure_memory(town: Town, *, conversations: int, warm_up_runs: int) -> Result:
    """Growth of gateway and workers, which must be fresh, from idle to all these in hand at the model.

    A conversation in hand holds its history, its connections on both sides and its task.
    """
    await warm_up(town, warm_up_runs)
    notes, tally = ModelNotes(town.model_url), Tally()
    idle = town.resident()
    marks = {sender: Mark(town.tokens.next(), ANSWER_MS, ANSWER_MS) for sender in seeded(town, conversations)}

    async def ask_alone(sender: str, mark: Mark) -> None:
        async with town.gate.line() as line:
            await ask(line, sender, mark, tally)

    asking = asyncio.gather(*(ask_alone(sender, mark) for sender, mark in marks.items()))
    await notes.until_heard([mark.token for mark in marks.values()], within=HEARD_WITHIN)
    busy = town.resident()
    await asking
    figures = {"kb_per_open_conversation": (busy - idle) / conversations / 1000, "idle_mb": idle / 1e6}
    return Result("memory", figures, tally.wrong, {"idle_bytes": idle, "busy_bytes": busy, "count": conversations})
