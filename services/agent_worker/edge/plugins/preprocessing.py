"""Runs the preprocessors of plugins on what came with a message."""

import asyncio
import functools
import inspect
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from lucyd_plugin import Attachment, PluginError
from services.agent_worker.edge.plugins.away import OwnLoop, Threads
from services.agent_worker.edge.plugins.plugin_tool import Manner
from services.agent_worker.ports import IncomingFile, NotPrepared, Prepared
from services.agent_worker.rules.plugin_speech import TRIES, may_try_again
from services.agent_worker.rules.plugin_tools import DeclaredPreprocessor
from services.agent_worker.rules.tool_output import storable

log = structlog.get_logger(__name__)

LONGEST_TEXT = 200_000
"""Characters that a message may have after it was prepared."""


@dataclass(frozen=True, slots=True)
class LoadedPreprocessor:
    """One of a plugin, and the loop of that plugin."""

    plugin: str
    declared: DeclaredPreprocessor
    loop: OwnLoop


class PluginPreprocessors:
    """``Preprocessors`` of the worker: in the order of the files, each given what the one before it left."""

    def __init__(self, loaded: Sequence[LoadedPreprocessor], *, threads: Threads, manner: Manner, config: Any) -> None:
        self._loaded = tuple(loaded)
        self._threads = threads
        self._manner = manner
        self._config = config

    def wants(self, content_type: str) -> bool:
        """Whether one of them reads such files."""
        return any(_reads(each.declared, content_type) for each in self._loaded)

    async def prepare(self, text: str, files: Sequence[IncomingFile]) -> Prepared:
        """See ``Preprocessors.prepare``. The files lie in a folder of their own for as long as it takes."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="lucyd-in-"))  # mode 0700
        try:
            laid = await asyncio.to_thread(_lay_out, folder, files)
            left = list(laid)
            for each in self._loaded:
                if not left:
                    break
                text, left = await self._one(each, text, left)
            remaining = {attachment.local_path for attachment in left}
            taken = [id for attachment, id in laid.items() if attachment.local_path not in remaining]
            return Prepared(storable(text)[:LONGEST_TEXT], taken)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _one(self, each: LoadedPreprocessor, text: str, left: list[Attachment]) -> tuple[str, list[Attachment]]:
        mine = [attachment for attachment in left if _reads(each.declared, attachment.content_type)]
        if not mine:
            return text, left
        try:
            new, remaining = await self._tried(each, text, mine)
        except Exception as fault:
            told = {"plugin": each.plugin, "preprocessor": each.declared.name, "error_type": type(fault).__name__}
            log.warning("preprocessor_failed", code=getattr(fault, "code", ""), **told)
            if each.declared.critical:
                raise NotPrepared(f"What came with the message could not be read ({each.declared.name}).") from fault
            fallback = each.declared.fallback_text
            return (f"{text}\n{fallback}".strip("\n") if fallback else text), left
        kept = {attachment.local_path for attachment in remaining}
        mine_now = {attachment.local_path for attachment in mine} - kept
        return new, [attachment for attachment in left if attachment.local_path not in mine_now]

    async def _tried(
        self, each: LoadedPreprocessor, text: str, files: Sequence[Attachment]
    ) -> tuple[str, list[Attachment]]:
        for left in reversed(range(TRIES)):
            try:
                return _understood(await self._called(each, text, files))
            except PluginError as fault:  # what only reads may be read again
                if not left or not may_try_again(fault.code, "read"):
                    raise
            await asyncio.sleep(self._manner.pause)
        raise AssertionError("the last try raises")

    async def _called(self, each: LoadedPreprocessor, text: str, files: Sequence[Attachment]) -> Any:
        function, within = each.declared.function, self._manner.timeout.total_seconds()
        call = functools.partial(function, text, list(files), self._config)
        if inspect.iscoroutinefunction(function):
            return await each.loop.run(call, {}, within=within)
        result = await self._threads.run(call, within=within)
        if inspect.iscoroutine(result):
            return await each.loop.run(_itself(result), {}, within=within)
        return result


def _reads(declared: DeclaredPreprocessor, content_type: str) -> bool:
    return not declared.content_types or content_type.startswith(declared.content_types)


def _lay_out(folder: Path, files: Sequence[IncomingFile]) -> dict[Attachment, str]:
    laid: dict[Attachment, str] = {}
    for position, file in enumerate(files):
        ending = Path(file.filename).suffix
        plain = ending.isascii() and ending[1:].isalnum() and len(ending) <= 10
        path = folder / f"{position}{ending if plain else ''}"
        path.write_bytes(file.data)
        path.chmod(0o600)
        attachment = Attachment(file.content_type, str(path), file.filename, len(file.data), file.is_voice)
        laid[attachment] = file.id
    return laid


def _understood(result: Any) -> tuple[str, list[Attachment]]:
    """``(text, remaining)``. Raises ``TypeError`` for anything else."""
    if isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[0], str):
        text, remaining = result
        return text, [attachment for attachment in remaining or () if isinstance(attachment, Attachment)]
    raise TypeError("a preprocessor gives back a text and the remaining attachments")


def _itself(coroutine: Any) -> Callable[[], Any]:
    return lambda: coroutine
