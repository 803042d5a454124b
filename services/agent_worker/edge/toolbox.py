"""All tools of a worker behind one door: the one place where a tool's fault becomes a result."""

import asyncio
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import structlog

from services.agent_worker.edge.picture_box import PictureBox
from services.agent_worker.ports import (
    Pictured,
    Proof,
    ProvingTool,
    ResultLater,
    Tool,
    ToolFailed,
    ToolSource,
    ToolUse,
    Verdict,
)
from services.agent_worker.rules.tool_arguments import checked_arguments
from services.agent_worker.rules.tool_output import storable, truncate
from shared.domain.chat import ToolCall, ToolResult
from shared.domain.effect import ToolSpec
from shared.errors import BadInput, LostClaim, TryLater

_log = structlog.get_logger(__name__)


class LocalToolbox:
    """The enabled tools, found by their names; a name that is not enabled, or not in a run's scope, reaches nothing.

    ``sources`` bring further ones, which are looked for at each use: what is there now can be used now.

    Results have at most ``output_truncation`` characters. At most ``max_parallel`` calls run at a time, over all
    conversations of the worker; others wait their turn. A tool must not wait for another call of the same toolbox.
    ``pictures`` keeps the images of results; without it they are only told of.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        output_truncation: int,
        max_parallel: int,
        sources: Sequence[ToolSource] = (),
        pictures: PictureBox | None = None,
    ) -> None:
        self._pictures = pictures
        self._tools = {tool.spec.name: tool for tool in tools}
        self._sources = sources
        if len(self._tools) != len(tools):
            raise ValueError("two tools have the same name")
        self._output_truncation = output_truncation
        self._turn = asyncio.Semaphore(max_parallel)

    def specs(self) -> Sequence[ToolSpec]:
        """What is offered to the model, in the order the tools were given."""
        return tuple(tool.spec for tool in self._all().values())

    def spec(self, name: str) -> ToolSpec | None:
        """The tool of that name, if it is enabled."""
        tool = self._find(name)
        return tool.spec if tool else None

    async def prove(self, call: ToolCall, use: ToolUse) -> Proof | None:
        """What to store before the call runs; ``None`` when the tool proves nothing or the call will fail by itself."""
        tool = self._reached(call, use)
        if tool is None or not _is_as_stored(tool, use) or not _proves(tool):
            return None
        try:
            return await tool.prove(checked_arguments(tool.spec.input_schema, call["arguments"]), use)
        except (BadInput, ToolFailed):
            return None
        except Exception as error:  # noqa: BLE001 - without a proof the call is in doubt after a crash, which is true
            _log_fault("tool_proof_failed", tool, error)
            return None

    async def verify(self, call: ToolCall, proof: Proof) -> Verdict:
        """Whether an interrupted call has happened; ``unknown`` also when its tool is no longer there."""
        tool = self._find(call["name"])
        if tool is None or not _proves(tool):
            return "unknown"
        try:
            return await tool.verify(proof)
        except Exception as error:  # noqa: BLE001 - a look that fails has seen nothing
            _log_fault("tool_verdict_failed", tool, error)
            return "unknown"

    async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
        """Run one call. What a tool or its arguments did wrong becomes a result; only cancellation passes through."""
        tool = self._reached(call, use)
        if tool is None:
            available = ", ".join(name for name in self._all() if use.scope is None or name in use.scope) or "none"
            return self._error(call, f"Unknown tool '{call['name'][:100]}'. Available tools: {available}")
        if not _is_as_stored(tool, use):
            return self._error(call, f"Tool '{tool.spec.name}' is another one by now. Nothing was done; ask again")
        try:
            arguments = checked_arguments(tool.spec.input_schema, call["arguments"])
        except BadInput as error:
            return self._error(call, f"Invalid arguments for '{tool.spec.name}': {error}")
        return await self._run(tool, call, arguments, use)

    def _all(self) -> Mapping[str, Tool]:
        found = dict(self._tools)
        for source in self._sources:
            for tool in source.tools():
                found.setdefault(tool.spec.name, tool)
        return found

    def _find(self, name: str) -> Tool | None:
        return self._tools.get(name) or (self._all().get(name) if self._sources else None)

    def _reached(self, call: ToolCall, use: ToolUse) -> Tool | None:
        """The tool that a call names, if its run may use it."""
        in_scope = use.scope is None or call["name"] in use.scope
        return self._find(call["name"]) if in_scope else None

    async def _run(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], use: ToolUse) -> ToolResult:
        async with self._turn:
            await use.ready()
            return await self._isolated(tool, call, arguments, use)

    async def _isolated(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], use: ToolUse) -> ToolResult:
        try:
            answer = await tool.run(arguments, use)
            return await self._result(call, answer, use)
        except ToolFailed as error:
            return self._error(call, str(error))
        except ResultLater:
            raise
        except (LostClaim, TryLater):
            if tool.spec.effect == "local":  # it is not known whether it was done: only the run as a whole can go on
                raise
            return self._error(call, f"Tool '{tool.spec.name}' failed")
        except Exception as error:  # noqa: BLE001 - the door: one tool's fault must not end the run
            _log_fault("tool_failed", tool, error, run_id=str(use.run_id), key=use.key)
            return self._error(call, f"Tool '{tool.spec.name}' failed")

    async def _result(self, call: ToolCall, answer: str | Pictured, use: ToolUse) -> ToolResult:
        if isinstance(answer, str):
            return {"tool_use_id": call["id"], "content": self._fit(answer)}
        images, lines = await self._pictures.keep(answer, use) if self._pictures is not None else ([], "")
        content = truncate(storable(answer.text), max(self._output_truncation - len(lines), 0)) + lines
        result: ToolResult = {"tool_use_id": call["id"], "content": content}
        if images:
            result["images"] = images
        return result

    def _error(self, call: ToolCall, message: str) -> ToolResult:
        return {"tool_use_id": call["id"], "content": self._fit(f"Error: {message}"), "is_error": True}

    def _fit(self, text: str) -> str:
        return truncate(storable(text), self._output_truncation)


def _is_as_stored(tool: Tool, use: ToolUse) -> bool:
    """Whoever goes on with the run decides by what is stored, so nothing else may be run."""
    return use.effect is None or tool.spec.effect == use.effect


def _proves(tool: Tool) -> TypeGuard[ProvingTool]:
    return hasattr(tool, "prove") and hasattr(tool, "verify")


def _log_fault(event: str, tool: Tool, error: Exception, **fields: str) -> None:
    """Type and place of a fault, and not its message: that may quote what the tool was given."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    _log.error(event, tool=tool.spec.name, error_type=type(error).__name__, place=place, **fields)
