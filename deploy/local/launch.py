"""Start Lucyd on this machine and stay with it: the story behind ``make run`` and ``lucyd up``."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from deploy.local import ports, readiness, state
from deploy.local.child import Child
from deploy.local.greeting import TokenPlace, greeting
from deploy.local.interruption import StopAsked, stop_on_signals
from deploy.local.keeper import Keeper, Program, stop_together
from deploy.local.log_file import open_log
from deploy.local.servers import Servers, run_servers
from deploy.local.workspace import provide_workspace
from shared.adapters.postgres.migrate import migrate
from shared.adapters.postgres.pool import open_database
from shared.adapters.postgres.workspace_id import check_workspace
from shared.errors import ConfigError
from shared.runtime.settings import Configuration, load_configuration

SERVICES = ("gateway", "agent_worker", "telegram_bridge", "indexer", "consolidator", "scheduler")

_READY_TAKES = timedelta(seconds=30)
_LOOK_WHILE_STARTING = timedelta(seconds=0.05)
_LOOK = timedelta(seconds=0.2)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    config: Path | None = None
    workers: int = 1


def command_of_service(name: str) -> Sequence[str]:
    """Return the command line that runs a service of this installation."""
    return (sys.executable, "-m", f"services.{name}")


def launch(
    options: Options, environ: Mapping[str, str], command_of: Callable[[str], Sequence[str]] = command_of_service
) -> None:
    """Run everything until somebody asks it to stop, then end everything that was started.

    ``command_of`` gives the command line of a service by its name, an absolute path first.
    Raises ConfigError with the sentences to print when it can't run; nothing is left running then either.
    """
    configuration = load_configuration(options.config, environ)
    keepers: list[Keeper] = []
    for warning in configuration.warnings:
        say(f"warning: {warning}")
    with (
        stop_on_signals(at_once=partial(_kill_all, keepers)),
        suppress(StopAsked),
        state.claim(state.open_folder(configuration.data_dir, show=say)) as claim,
    ):
        token_file = _provide_token(configuration, claim.folder)
        if not configuration.workspace_given:
            provide_workspace(configuration.workspace)
        _refuse_busy_port(configuration)
        with run_servers(claim, configuration.database_url, configuration.redis_url, show=say) as servers:
            migrate(servers.database_url)
            asyncio.run(_check_workspace(servers.database_url, configuration.workspace))
            environment = service_environment(environ, options, claim.folder, servers)
            programs = service_programs(command_of, claim, environment, options.workers)
            keepers += [Keeper(program, say) for program in programs]
            address = _address(configuration)
            with _running(keepers), _announced(claim.folder, address, servers):
                watch = partial(_watch, servers, keepers)
                _wait_until_ready(configuration, servers, watch, claim.folder / "logs")
                model = configuration.models.get("primary") or next(iter(configuration.models.values()), None)
                token = TokenPlace(token_file, configuration.http.token_env, _dotenv_of_token(configuration, environ))
                print(greeting(address, token=token, data_dir=claim.folder, model=model, here=Path.cwd()), flush=True)
                while True:
                    time.sleep(_LOOK.total_seconds())
                    watch()


def _kill_all(keepers: Sequence[Keeper]) -> None:
    for keeper in keepers:
        keeper.kill()


def _provide_token(configuration: Configuration, folder: Path) -> Path | None:
    """Return the file with the bearer token, made when there was none; None when the token was given otherwise."""
    file = folder / "http_token"
    given = configuration.http_token
    if given is not None and given != state.read_secret(file):
        return None
    state.keep_secret(file)
    return file


def _dotenv_of_token(configuration: Configuration, environ: Mapping[str, str]) -> Path | None:
    """The .env that the token came from, which the person's shell knows nothing of."""
    return None if environ.get(configuration.http.token_env) else configuration.dotenv_file


def _refuse_busy_port(configuration: Configuration) -> None:
    host, port = configuration.http.host, configuration.http.port
    if not ports.is_free(port, host):
        raise ConfigError(
            [f"port {port} of {host} can't be had, most likely another program has it: set LUCYD_HTTP_PORT"]
        )


def _address(configuration: Configuration) -> str:
    host = readiness.address_of(configuration.http.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{configuration.http.port}"


def _watch(servers: Servers, keepers: Sequence[Keeper]) -> None:
    servers.watch()
    for keeper in keepers:
        keeper.watch()


def service_environment(environ: Mapping[str, str], options: Options, folder: Path, servers: Servers) -> dict[str, str]:
    """Return the environment of the services: the launcher's own, and where everything is."""
    config = {} if options.config is None else {"LUCYD_CONFIG": str(options.config.resolve())}
    return {
        **environ,
        **config,
        "LUCYD_DATA_DIR": str(folder),
        "LUCYD_DATABASE_URL": servers.database_url,
        "LUCYD_REDIS_URL": servers.redis_url,
    }


def service_programs(
    command_of: Callable[[str], Sequence[str]], claim: state.Claim, environment: Mapping[str, str], workers: int
) -> list[Program]:
    """Return the services as programs; the second worker and those after it have their number in the name."""
    programs = []
    for service in SERVICES:
        for number in range(1, 1 + (workers if service == "agent_worker" else 1)):
            name = service if number == 1 else f"{service}-{number}"
            log = claim.folder / "logs" / f"{name}.log"
            start = partial(_start_service, command_of(service), log, environment, claim.lock)
            programs.append(Program(name, log, start))
    return programs


def say(line: str) -> None:
    """Tell the person in front."""
    print(line, file=sys.stderr, flush=True)


def _start_service(words: Sequence[str], log: Path, environment: Mapping[str, str], lock: int) -> Child:
    with open_log(log) as out:
        return Child(words, log=out, environment=environment, lock=lock)


@contextmanager
def _running(keepers: Sequence[Keeper]) -> Iterator[None]:
    try:
        for keeper in keepers:
            keeper.start()
        yield
    except ConfigError:
        for keeper in keepers:
            keeper.hush()  # the others most likely say the same
        raise
    finally:
        stop_together(keepers)


@contextmanager
def _announced(folder: Path, http: str, servers: Servers) -> Iterator[None]:
    """Leave the addresses for the command line tools while everything runs."""
    file = folder / "launcher.json"
    known = {"pid": os.getpid(), "http": http, "database_url": servers.database_url, "redis_url": servers.redis_url}
    state.write_private(file, json.dumps(known, indent=1) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


async def _check_workspace(database_url: str, workspace: Path) -> None:
    """Refuse a workspace that no worker could run on, before anybody is told that all is ready."""
    async with open_database(database_url, application="lucyd up", connections=1) as database:
        await check_workspace(database, workspace)


def _wait_until_ready(configuration: Configuration, servers: Servers, watch: Callable[[], None], logs: Path) -> None:
    """Ready means that a message is answered: the gateway takes it, and a worker runs."""
    until = time.monotonic() + _READY_TAKES.total_seconds()
    http = configuration.http
    while not (readiness.is_ready(http.host, http.port) and readiness.has_worker(servers.redis_url)):
        if time.monotonic() >= until:
            seconds = f"{_READY_TAKES.total_seconds():g}"
            raise ConfigError([f"gateway and worker were not ready within {seconds} s: see the logs in {logs}"])
        watch()
        time.sleep(_LOOK_WHILE_STARTING.total_seconds())
