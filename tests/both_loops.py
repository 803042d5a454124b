"""Tests that run on asyncio's own loop and on uvloop: what touches transports must hold on both."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make one test for each loop of an async one; it may take fixtures that are not async."""

    @functools.wraps(test)
    def both(loop_factory: Callable[[], asyncio.AbstractEventLoop], **fixtures: Any) -> None:
        async def run() -> None:
            await test(**fixtures)

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(run())

    taken = inspect.signature(test)
    loop = inspect.Parameter("loop_factory", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    setattr(both, "__signature__", taken.replace(parameters=[loop, *taken.parameters.values()]))  # noqa: B010 - unknown to mypy
    del both.__wrapped__
    marked: Callable[..., None] = pytest.mark.parametrize("loop_factory", _LOOPS.values(), ids=_LOOPS)(both)
    return marked
