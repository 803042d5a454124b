"""The side door: what is called by name from the queues. Each call opens its own connections and closes them."""

import asyncio

import orjson

from services.consolidator.actions.find_backlog import find_backlog
from services.consolidator.actions.maintain_store import maintain_store
from services.consolidator.wiring import open_store
from shared.runtime.settings import environment_configuration


def consolidate(argument: str) -> str:
    """Report what waits to be consolidated, as JSON: see ``find_backlog``. It only reports: no model is asked, no fact
    or episode is stored and no watermark moves.

    ``argument`` is a JSON object that says for when this was due; nothing in it changes what is done. Raises
    ``TryLater`` when Postgres is away.
    """
    return asyncio.run(_consolidate())


def maintain(argument: str) -> str:
    """Refresh the planner's statistics and count the rows, as JSON: see ``maintain_store``. ``argument`` as above."""
    return asyncio.run(_maintain())


async def _consolidate() -> str:
    async with open_store(environment_configuration()) as store:
        return orjson.dumps(await find_backlog(store.backlog, at_least=store.min_messages)).decode()


async def _maintain() -> str:
    async with open_store(environment_configuration()) as store:
        return orjson.dumps(await maintain_store(store.figures)).decode()
