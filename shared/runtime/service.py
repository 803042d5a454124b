"""The door of every process: read the configuration, open what is needed, run, drain on SIGTERM, close in reverse."""

import asyncio
import contextlib
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from shared.errors import ConfigError
from shared.runtime.garbage import look_less_often
from shared.runtime.logs import set_up_logs
from shared.runtime.scheduling import let_others_finish
from shared.runtime.settings import Configuration, load_configuration
from shared.runtime.vitals import allow_many_files, keep_heaps_few, keep_small

log = structlog.get_logger(__name__)

BAD_CONFIGURATION = 1
CRASHED = 70  # EX_SOFTWARE of sysexits: whoever starts us may start us again
START_ANEW = 75  # EX_TEMPFAIL: start me again
DRAIN_AT_MOST = timedelta(seconds=25)


async def _nothing() -> None:
    return


class StartAnew(Exception):
    """Raised by a loop: this process is to say goodbye as on SIGTERM, and to be started again."""


@dataclass(frozen=True, slots=True)
class Service:
    """What runs until the end. ``loops`` go on until cancelled; one that ends or fails ends the process.

    One that raises ``StartAnew`` has it drained first.

    ``drain`` is called once, on SIGTERM or SIGINT, before the loops are cancelled, and is bounded.
    """

    name: str
    loops: Sequence[Callable[[], Awaitable[None]]]
    drain: Callable[[], Awaitable[None]] = _nothing


OpenService = Callable[[Configuration], AbstractAsyncContextManager[Service]]


def run(name: str, open_service: OpenService, argv: Sequence[str] | None = None) -> None:
    """Run a service until it is told to stop; exits 0 then, 1 on a bad configuration, 70 on a crash,
    75 when it is to be started anew."""
    parser = ArgumentParser(prog=f"python -m services.{name}")
    parser.add_argument("-c", "--config", type=Path, default=None, help="path of lucyd.toml")
    arguments = parser.parse_args(argv)
    if arguments.config is not None:
        # What this process reads later, and what it starts, stands on the same file.
        os.environ["LUCYD_CONFIG"] = str(arguments.config.expanduser().absolute())
    keep_heaps_few()
    allow_many_files()
    try:
        configuration = load_configuration(arguments.config, os.environ)
        logging = configuration.logging
        set_up_logs(name, level=logging.level, form=logging.format, suppress=logging.suppress)
        let_others_finish()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_live(name, open_service, configuration))
    except ConfigError as fault:
        for error in fault.errors:
            print(f"{name}: {error}", file=sys.stderr)  # noqa: T201 - the operator reads this, not a log collector
        sys.exit(BAD_CONFIGURATION)
    except StartAnew:
        sys.exit(START_ANEW)
    except Exception:
        log.exception("service_crashed")
        sys.exit(CRASHED)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - not there on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _live(name: str, open_service: OpenService, configuration: Configuration) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    serving = asyncio.Event()
    opening = asyncio.create_task(_open_and_serve(open_service, configuration, serving, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not opening.done() and not serving.is_set():
        opening.cancel()  # told to stop while still waiting for Postgres or Redis
    stopping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await opening
    log.info("service_stopped", name=name)


async def _open_and_serve(
    open_service: OpenService, configuration: Configuration, serving: asyncio.Event, stop: asyncio.Event
) -> None:
    async with open_service(configuration) as service:
        serving.set()
        look_less_often()
        log.info("service_started", pid=os.getpid())
        await _serve(service, stop)


async def _serve(service: Service, stop: asyncio.Event) -> None:
    loops = [asyncio.ensure_future(loop()) for loop in (*service.loops, keep_small)]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({*loops, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if any(loop.done() and not loop.cancelled() and isinstance(loop.exception(), StartAnew) for loop in loops):
            stop.set()
        if stop.is_set():
            log.info("service_draining")
            try:
                async with asyncio.timeout(DRAIN_AT_MOST.total_seconds()):
                    await service.drain()
            except TimeoutError:
                log.warning("drain_cut_short")
    finally:
        stopping.cancel()
        for loop in loops:
            loop.cancel()
        outcomes = await asyncio.gather(*loops, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    if not stop.is_set():
        raise RuntimeError("a loop of the service ended by itself")
