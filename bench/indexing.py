"""Background work beside the load: notes that change all the time, and an indexer that is told to look each time."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from bench.town import Town
from shared.adapters.redis.queues import open_queues
from shared.messages import routes

NOTES = 200
NOTE_BYTES = 4000
CHANGED_EACH = 10
EVERY = 1.0

_LINE = "On this day we looked at the plan again and noted what is still open, so that nobody has to ask twice.\n"


@contextlib.asynccontextmanager
async def indexing(town: Town, *, on: bool) -> AsyncIterator[None]:
    """While the block runs, ``on``: ten of two hundred notes change each second, and an index job follows."""
    if not on:
        yield
        return
    task = asyncio.create_task(_change_and_ask(town))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _change_and_ask(town: Town) -> None:
    folder = town.stack.workspace / "memory"
    await asyncio.to_thread(_write, folder, range(NOTES), 0)
    async with open_queues(town.stack.redis_url) as queues:
        for turn in itertools.count(1):
            changed = [(turn * CHANGED_EACH + each) % NOTES for each in range(CHANGED_EACH)]
            await asyncio.to_thread(_write, folder, changed, turn)
            await queues.enqueue(routes.INDEX_QUEUE, routes.INDEX_JOB, {}, job_id=f"bench-{turn}")
            await asyncio.sleep(EVERY)


def _write(folder: Path, numbers: Iterable[int], turn: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        text = f"# Note {number}, change {turn}\n" + _LINE * (NOTE_BYTES // len(_LINE))
        (folder / f"note-{number:03d}.md").write_text(text, "utf-8")
