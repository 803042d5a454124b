"""The side door: what is called by name from the queue. Each call opens its own connections and closes them."""

import asyncio

import orjson

from services.indexer.actions.index_workspace import index_workspace
from services.indexer.wiring import open_indexing
from shared.runtime.settings import environment_configuration


def index(argument: str) -> str:
    """Index the workspace; the counts of ``index_workspace`` as JSON.

    ``argument`` is a JSON object that says for when this was due; nothing in it changes what is done. Raises
    ``ConfigError`` when the workspace is not there, ``TryLater`` when Postgres is away.
    """
    return asyncio.run(_index())


async def _index() -> str:
    async with open_indexing(environment_configuration()) as indexing:
        counts = await index_workspace(indexing.workspace, indexing.files, indexing.chunking)
        return orjson.dumps(counts).decode()
