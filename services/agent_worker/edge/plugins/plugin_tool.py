"""A tool of a plugin, as the toolbox knows tools."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog

from lucyd_plugin import FileToSend, PluginError
from services.agent_worker.edge.plugins.away import OwnLoop, Threads, TookTooLong, TooMany
from services.agent_worker.edge.plugins.children import ChildDied, Children
from services.agent_worker.edge.plugins.reading import Plugin
from services.agent_worker.edge.plugins.sending import FileSender
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.plugin_speech import PAUSE, TRIES, may_try_again, refusal, text_of, without_secrets
from services.agent_worker.rules.plugin_tools import DeclaredTool
from services.agent_worker.rules.tool_output import truncate
from shared.domain.effect import ToolSpec

log = structlog.get_logger(__name__)

KEY = "idempotency_key"
SEND_TO = "send_to"
ERROR = "Error:"


@dataclass(frozen=True, slots=True)
class Manner:
    """How plugins are called. ``timeout`` is for tools that name none; ``secrets`` appear in no result."""

    timeout: timedelta = timedelta(seconds=120)
    pause: float = PAUSE
    output_limit: int = 30_000
    secrets: Collection[str] = field(default=(), repr=False)


class PluginTool:
    """Calls the function where it does no harm: in a thread, in its plugin's own event loop, or in another process."""

    def __init__(
        self,
        plugin: Plugin,
        declared: DeclaredTool,
        *,
        threads: Threads,
        loop: OwnLoop,
        children: Children,
        manner: Manner,
        sender: FileSender | None = None,
    ) -> None:
        self._plugin = plugin
        self._declared = declared
        self._threads = threads
        self._loop = loop
        self._children = children
        self._manner = manner
        self._sender = sender
        self._within = declared.timeout or manner.timeout.total_seconds()
        limit = int(declared.max_output) or manner.output_limit
        self._limit = min(limit, manner.output_limit)

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return self._declared.spec

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Its result as text. Raises ``ToolFailed`` with a sentence that gives nothing away."""
        name = self.spec.name
        given = self._with_key(arguments, use.key)
        if self._declared.sends and given.get(SEND_TO):
            self._find_receiver(given[SEND_TO], use)
        for left in reversed(range(TRIES)):
            try:
                return await self._told(await self._call(given), use)
            except PluginError as fault:
                log.warning("plugin_fault", plugin=self._plugin.name, tool=name, code=fault.code, tries_left=left)
                if not left or not may_try_again(fault.code, self.spec.effect):
                    said = refusal(name, fault.code, without_secrets(str(fault), self._manner.secrets))
                    raise ToolFailed(said) from fault
            except TookTooLong as fault:
                raise ToolFailed(f"'{name}' took longer than {self._within:g} seconds and was given up") from fault
            except TooMany as fault:
                raise ToolFailed(f"too many calls of plugins have not ended; '{name}' was not called") from fault
            except ChildDied as fault:
                raise ToolFailed(f"the process that ran '{name}' ended before it had a result") from fault
            await asyncio.sleep(self._manner.pause)
            await use.ready()
        raise AssertionError("the last try raises")

    def _with_key(self, arguments: Mapping[str, Any], key: str) -> dict[str, Any]:
        """The arguments, and the key of the call where the function takes it. Raises ``ToolFailed``."""
        given = dict(arguments)
        if KEY not in self.spec.input_schema["properties"] and takes(self._declared.function, KEY):
            given[KEY] = key
        try:
            inspect.signature(self._declared.function).bind(**given)
        except TypeError as error:
            raise ToolFailed(f"Invalid arguments for '{self.spec.name}': {error}") from error
        except ValueError:
            pass  # a function in C without a signature: it says itself what it takes
        return given

    async def _call(self, given: Mapping[str, Any]) -> Any:
        function = self._declared.function
        if self._declared.cpu_heavy:
            return await self._children.call(
                self._plugin, self.spec.name, given, within=self._within, limit=self._limit
            )
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
            return await self._loop.run(function, given, within=self._within)
        result = await self._threads.run(functools.partial(function, **given), within=self._within)
        if inspect.iscoroutine(result):  # an ordinary function that gives back a coroutine
            return await self._loop.run(_itself(result), {}, within=self._within)
        return result

    def _find_receiver(self, to: str, use: ToolUse) -> None:
        """Before anything is done or bought. Raises ``ToolFailed``."""
        if self._sender is None:
            raise ToolFailed("nothing can be sent from here")
        self._sender.check(to, use)

    async def _told(self, result: Any, use: ToolUse) -> str:
        """The result as text, once the file that it is to send is sent."""
        file = result.get("send") if isinstance(result, Mapping) and self._declared.sends else None
        if isinstance(file, FileToSend) and self._sender is not None:
            return await self._sender.send(file, use)
        return self._said(result)

    def _said(self, result: Any) -> str:
        text = without_secrets(text_of(result), self._manner.secrets)
        if text.startswith(ERROR):
            raise ToolFailed(truncate(text[len(ERROR) :].strip() or "it failed", self._limit))
        return truncate(text, self._limit)


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether the function has a parameter of that name."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _itself(coroutine: Any) -> Callable[[], Any]:
    return lambda: coroutine
