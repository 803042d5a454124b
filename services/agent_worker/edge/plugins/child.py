"""A process for the tools of one plugin: reads calls, a line each, and answers each with a line.

It ends when the worker does: its standard input ends then, whatever it computes.
"""

import asyncio
import inspect
import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

from lucyd_plugin import PluginError
from services.agent_worker.edge.plugins.offered import Offer
from services.agent_worker.edge.plugins.reading import Plugin, read_plugin
from services.agent_worker.rules.plugin_speech import text_of
from services.agent_worker.rules.plugin_tools import BadPlugin
from services.agent_worker.rules.tool_output import storable, truncate


def main() -> None:
    """Serve until nobody asks any more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no answer
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    told = asked.get()
    try:
        plugin: Plugin | None = read_plugin(
            Path(told["path"]),
            Offer(told["sections"], told["tools"], secret=lambda name: os.environ.get(name) or None),  # noqa: TID251 - its own, made for it
        )
    except BadPlugin:
        plugin = None
    while True:
        _answer(answers, _called(plugin, asked.get()))


def _listen(asked: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin.buffer:
        asked.put(json.loads(line))
    os._exit(0)


def _called(plugin: Plugin | None, call: dict[str, Any]) -> dict[str, Any]:
    tools = {tool.spec.name: tool for tool in plugin.tools} if plugin else {}
    tool = tools.get(call["tool"])
    if tool is None:
        return {"broke": "it could not be loaded in its process"}
    try:
        result = tool.function(**call["arguments"])
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        return {"text": truncate(storable(text_of(result)), call["limit"])}
    except PluginError as fault:
        return {"code": fault.code, "message": str(fault)[:2000]}
    except BaseException as error:  # noqa: BLE001 - the door of this process
        return {"broke": type(error).__name__}


def _answer(answers: BinaryIO, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
