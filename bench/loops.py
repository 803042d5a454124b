"""The event loop of the bench's own processes: uvloop where it is there, since they share the machine with Lucyd."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # not there on Windows
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run it in a loop of its own."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
