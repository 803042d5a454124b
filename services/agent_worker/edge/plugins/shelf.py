"""All plugins of a worker: loaded once at its start, each for itself; one that fails leaves a reason behind."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import structlog

from services.agent_worker.edge.plugins.away import OwnLoop, Threads, TookTooLong
from services.agent_worker.edge.plugins.children import Children
from services.agent_worker.edge.plugins.offered import Offer, PluginConfig
from services.agent_worker.edge.plugins.plugin_tool import Manner, PluginTool
from services.agent_worker.edge.plugins.preprocessing import LoadedPreprocessor, PluginPreprocessors
from services.agent_worker.edge.plugins.reading import Plugin, plugin_files, read_plugin
from services.agent_worker.edge.plugins.sending import FileSender
from services.agent_worker.edge.plugins.terms import IN_THE_BOX, PluginTerms, named_in
from services.agent_worker.ports import Tool
from services.agent_worker.rules.plugin_tools import BadPlugin

log = structlog.get_logger(__name__)

LOADED_WITHIN = 10.0
"""Seconds, for each: a plugin that waits for something at its import keeps the worker from its work."""

LONGEST_REASON = 300
TAKEN = "there is a tool of this name already, which keeps it"
PEOPLE = "user"
"""Who talks here; other talkers of the original, its own voice to itself, are no runs of their own."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a plugin. ``notes`` say of its tools which are not offered, and why."""

    name: str
    state: Literal["loaded", "failed"]
    reason: str = ""
    tools: Sequence[str] = ()
    preprocessors: Sequence[str] = ()
    notes: Sequence[str] = ()


class PluginShelf:
    """``ToolSource`` of the plugins; ``told`` is what operators read of them. ``preprocessors`` are all of theirs,
    ``None`` where there are none."""

    def __init__(
        self, tools: Sequence[Tool], reports: Sequence[Report], preprocessors: PluginPreprocessors | None
    ) -> None:
        self._tools = tuple(tools)
        self.reports = tuple(reports)
        self.preprocessors = preprocessors

    def beside(self, taken: Iterable[str]) -> "PluginShelf":
        """Itself, once tools that are not the plugins' have these names; theirs of those names are not offered."""
        names = frozenset(taken)
        self._tools = tuple(tool for tool in self._tools if tool.spec.name not in names)
        self.reports = tuple(_giving_way(report, names) for report in self.reports)
        return self

    def tools(self) -> Sequence[Tool]:
        """Those of all plugins, in the order of their files."""
        return self._tools

    @property
    def told(self) -> str:
        """As JSON, for the monitor hash."""
        return json.dumps(
            [
                {
                    "name": report.name,
                    "state": report.state,
                    "reason": report.reason,
                    "tools": list(report.tools),
                    "preprocessors": list(report.preprocessors),
                    "notes": list(report.notes),
                }
                for report in self.reports
            ]
        )


def _giving_way(report: Report, names: Collection[str]) -> Report:
    lost = [name for name in report.tools if name in names]
    if not lost:
        return report
    log.warning("plugin_tools_passed_over", plugin=report.name, tools=lost)
    kept = tuple(name for name in report.tools if name not in names)
    return replace(report, tools=kept, notes=(*report.notes, *(f"{name}: {TAKEN}" for name in lost)))


@contextlib.asynccontextmanager
async def open_plugins(
    terms: PluginTerms, *, output_limit: int, manner: Manner | None = None, sender: FileSender | None = None
) -> AsyncIterator[PluginShelf]:
    """Load them; their loops and processes end with this. ``sender`` is for those that send files to people."""
    manner = manner or Manner(terms.timeout, output_limit=output_limit, secrets=terms.secrets)
    offer = Offer(terms.sections, tuple(terms.enabled), secret=terms.secret)
    threads = Threads()
    loops: list[OwnLoop] = []

    def environment(plugin: Plugin) -> Mapping[str, str]:
        names = ((name, terms.secret(name)) for name in named_in(plugin.settings))
        return {**terms.environment, **{name: value for name, value in names if value is not None}}

    children = Children(offer, environment, most=terms.processes)
    tools: list[Tool] = []
    reports: list[Report] = []
    preparing: list[LoadedPreprocessor] = []
    names: set[str] = set()
    for path in plugin_files(terms.folders):
        try:
            plugin = await _read(path, offer, threads, terms)
        except BadPlugin as fault:
            reports.append(Report(path.stem, "failed", str(fault)[:LONGEST_REASON]))
            log.warning("plugin_failed", plugin=path.stem, reason=str(fault)[:LONGEST_REASON])
            continue
        loop = OwnLoop(plugin.name)
        loops.append(loop)
        preparing += [LoadedPreprocessor(plugin.name, each, loop) for each in plugin.preprocessors]
        offered, notes = [], []
        for declared in plugin.tools:
            name = declared.spec.name
            if name in names:
                notes.append(f"{name}: {TAKEN}")
            elif name not in terms.enabled:
                notes.append(f"{name}: it is not in [tools] enabled")
            elif declared.talkers is not None and PEOPLE not in declared.talkers:
                notes.append(f"{name}: it is for talkers that there are none of here")
            else:
                names.add(name)
                offered.append(name)
                tools.append(
                    PluginTool(
                        plugin, declared, threads=threads, loop=loop, children=children, manner=manner, sender=sender
                    )
                )
        preprocessors = [each.name for each in plugin.preprocessors]
        reports.append(Report(plugin.name, "loaded", "", tuple(offered), tuple(preprocessors), tuple(notes)))
        log.info("plugin_loaded", plugin=plugin.name, tools=offered, preprocessors=preprocessors, notes=notes)
    try:
        config = PluginConfig(terms.sections)
        both = PluginPreprocessors(preparing, threads=threads, manner=manner, config=config) if preparing else None
        yield PluginShelf(tools, reports, both)
    finally:
        await children.close()
        for loop in loops:
            await asyncio.to_thread(loop.close)


async def _read(path: Path, offer: Offer, threads: Threads, terms: PluginTerms) -> Plugin:
    """Read it in a thread of its own: a plugin that hangs hangs alone. Raises ``BadPlugin``."""

    def reading() -> Plugin:
        if path.parent == IN_THE_BOX:
            return read_plugin(path, offer)  # ours ask for what they need
        return read_plugin(path, offer, lend=lambda settings: _lend({*terms.lent, *named_in(settings)}, terms))

    try:
        plugin: Plugin = await threads.run(reading, within=LOADED_WITHIN)
    except TookTooLong as error:
        raise BadPlugin(f"it was not loaded within {LOADED_WITHIN:g} seconds") from error
    except BadPlugin:
        raise
    except Exception as error:
        raise BadPlugin(f"it can't be loaded: {type(error).__name__}") from error
    return plugin


def _lend(names: Collection[str], terms: PluginTerms) -> None:
    """Put the variables that ``*_env`` keys name where plugins of the original look for them.

    Those that stand in ``.env`` alone are in no process's environment here; what commands are given is made elsewhere.
    """
    for name in names:
        value = terms.secret(name)
        if value is not None:
            os.environ.setdefault(name, value)  # noqa: TID251 - it is lent to plugins, which are the operator's code
