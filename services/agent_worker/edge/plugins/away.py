"""Runs a plugin's functions away from the worker's event loop, so that the worst of them stops only itself."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import structlog

log = structlog.get_logger(__name__)

MOST_THREADS = 16


class TookTooLong(Exception):
    """The call was given up; a thread can't be stopped, and goes on until it ends by itself."""


class TooMany(Exception):
    """All threads are taken by calls that have not ended."""


class Broke(Exception):
    """The function tried to end more than itself: it raised something that is no ``Exception``."""


Outcome = tuple[bool, Any]
"""Whether there is a result, and the result or the exception."""


class Threads:
    """One thread for each call of an ordinary function, so many at a time; none of them keeps the process alive."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._free = threading.BoundedSemaphore(most)

    async def run(self, function: Callable[[], Any], *, within: float) -> Any:
        """Its result or its exception. Raises ``TookTooLong`` and ``TooMany``."""
        if not self._free.acquire(blocking=False):
            raise TooMany
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome] = loop.create_future()
        thread = threading.Thread(target=self._work, args=(function, loop, done), name="plugin", daemon=True)
        thread.start()
        return _unpacked(await _in_time(done, within))

    def _work(
        self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop, done: "asyncio.Future[Outcome]"
    ) -> None:
        try:
            outcome = True, function()
        except BaseException as error:  # noqa: BLE001 - it is handed over
            outcome = False, _plain(error)
        finally:
            self._free.release()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_settle, done, outcome)


class OwnLoop:
    """An event loop in a thread of its own, for the coroutines of one plugin; started when it is needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any], *, within: float) -> Any:
        """Its result or its exception; a call that is given up is cancelled. Raises ``TookTooLong``."""
        work = asyncio.run_coroutine_threadsafe(_guarded(functools.partial(function, **arguments)), self._started())
        return _unpacked(await _in_time(asyncio.wrap_future(work), within))

    def close(self) -> None:
        """Stop the loop, if it heeds that; its thread ends with the process in any case."""
        loop, thread = self._loop, self._thread
        self._loop = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1.0)
        if not thread.is_alive():
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_turn, args=(self._loop,), name=f"plugin {self._name}", daemon=True)
            self._thread.start()
        return self._loop


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=0.5))


async def _guarded(function: Callable[[], Any]) -> Outcome:
    try:
        return True, await function()
    except BaseException as error:  # noqa: BLE001 - it is handed over; of a cancelled call nobody asks
        return False, _plain(error)


async def _in_time(done: "asyncio.Future[Outcome]", within: float) -> Outcome:
    try:
        await asyncio.wait({done}, timeout=within)
    finally:
        if not done.done():
            done.cancel()
    if done.cancelled():
        raise TookTooLong
    return done.result()


def _settle(done: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not done.done():
        done.set_result(outcome)


def _plain(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) and not isinstance(error, StopIteration) else Broke(str(type(error)))


def _unpacked(outcome: Outcome) -> Any:
    good, value = outcome
    if not good:
        raise value
    return value
