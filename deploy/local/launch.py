"""Start Lucyd on this machine and stay with it: the story behind ``make run`` and ``lucyd up``."""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from deploy.local import readiness, state
from deploy.local.child import Child
from deploy.local.greeting import TokenPlace, greeting
from deploy.local.hand_over import NotFollowed, hand_over
from deploy.local.interruption import StopAsked, stop_on_signals
from deploy.local.keeper import Keeper, Program, stop_together
from deploy.local.log_file import open_log
from deploy.local.restart_request import Account
from deploy.local.servers import Servers, run_servers
from deploy.local.workspace import provide_workspace
from shared.adapters.http.listening import GIVEN, listen
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
    wishes: SimpleQueue[None] = SimpleQueue()  # of restarts; a signal handler may put into it at any instant
    for warning in configuration.warnings:
        say(f"warning: {warning}")
    with (
        stop_on_signals(at_once=partial(_kill_all, keepers), restart=partial(wishes.put, None)),
        suppress(StopAsked),
        state.claim(state.open_folder(configuration.data_dir, show=say)) as claim,
        _account(claim.folder) as account,  # at once: what a killed launcher has left names a process of anybody
    ):
        token_file = _provide_token(configuration, claim.folder)
        if not configuration.workspace_given:
            provide_workspace(configuration.workspace)
        with (
            _door(configuration) as door,
            run_servers(claim, configuration.database_url, configuration.redis_url, show=say) as servers,
        ):
            migrate(servers.database_url)
            asyncio.run(_check_workspace(servers.database_url, configuration.workspace))
            environment = service_environment(environ, options, claim.folder, servers)
            programs = service_programs(command_of, claim, environment, options.workers, door)
            keepers += [Keeper(program, say) for program in programs]
            address = _address(configuration)
            with _running(keepers, door), _announced(claim.folder, address, servers):
                watch = partial(_watch, servers, keepers)
                _wait_until_ready(configuration, servers, watch, claim.folder / "logs")
                model = configuration.models.get("primary") or next(iter(configuration.models.values()), None)
                token = TokenPlace(token_file, configuration.http.token_env, _dotenv_of_token(configuration, environ))
                print(greeting(address, token=token, data_dir=claim.folder, model=model, here=Path.cwd()), flush=True)
                while True:
                    time.sleep(_LOOK.total_seconds())
                    watch()
                    if not wishes.empty():
                        while not wishes.empty():
                            wishes.get()
                        restart_services(keepers, account, servers, watch)


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


@contextmanager
def _door(configuration: Configuration) -> Iterator[socket.socket]:
    """The gateway's listening socket. It is the launcher's, so that it stays open while gateways come and go."""
    host, port = configuration.http.host, configuration.http.port
    try:
        listener = listen(host, port)
    except ConfigError as fault:
        raise ConfigError(
            [f"port {port} of {host} can't be had, most likely another program has it: set LUCYD_HTTP_PORT"]
        ) from fault
    with listener:
        yield listener


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
    command_of: Callable[[str], Sequence[str]],
    claim: state.Claim,
    environment: Mapping[str, str],
    workers: int,
    door: socket.socket,
) -> list[Program]:
    """Return the services as programs; the second worker and those after it have their number in the name.

    The gateway gets ``door`` to listen at.
    """
    programs = []
    for service in SERVICES:
        for number in range(1, 1 + (workers if service == "agent_worker" else 1)):
            name = service if number == 1 else f"{service}-{number}"
            log = claim.folder / "logs" / f"{name}.log"
            given = door if service == "gateway" else None
            start = partial(_start_service, command_of(service), log, environment, claim.lock, given)
            programs.append(Program(name, log, start))
    return programs


def say(line: str) -> None:
    """Tell the person in front."""
    print(line, file=sys.stderr, flush=True)


def restart_services(
    keepers: Sequence[Keeper], account: Account, servers: Servers, meanwhile: Callable[[], None]
) -> None:
    """Have each process of the services that are asked for followed by a new one; the first that is not fit ends it."""
    wanted = account.begin()
    if unknown := sorted({name for name in wanted if name not in SERVICES}):
        account.end([f"there is no service {', '.join(unknown)}; there are {', '.join(SERVICES)}"])
        return
    try:
        for keeper in keepers:
            service = keeper.name.partition("-")[0]
            if not wanted or service in wanted:
                seconds = hand_over(keeper, partial(_is_up, servers, service), meanwhile)
                account.line(f"{keeper.name} restarted in {seconds:.1f} s")
    except NotFollowed as fault:
        errors = [*fault.sentences, f"the {keeper.name} that ran before goes on; what comes after it was not restarted"]
        for error in errors:
            say(f"restart: {error}")
        account.end(errors)
    else:
        say(f"restarted: {', '.join(wanted) if wanted else 'all services'}")
        account.end()


def _is_up(servers: Servers, service: str, child: Child) -> bool:
    return readiness.is_up(servers.redis_url, service, parent=child.pid)


def _start_service(
    words: Sequence[str], log: Path, environment: Mapping[str, str], lock: int, door: socket.socket | None
) -> Child:
    given = None
    if door is not None:
        given = door.fileno()
        environment = {**environment, GIVEN: str(given)}
    with open_log(log) as out:
        return Child(words, log=out, environment=environment, lock=lock, given=given)


@contextmanager
def _account(folder: Path) -> Iterator[Account]:
    account = Account(folder)
    try:
        yield account
    finally:
        account.close()


@contextmanager
def _running(keepers: Sequence[Keeper], door: socket.socket) -> Iterator[None]:
    try:
        for keeper in keepers:
            keeper.start()
        yield
    except ConfigError:
        for keeper in keepers:
            keeper.hush()  # the others most likely say the same
        raise
    finally:
        door.close()  # nobody follows: who comes now is refused at once, instead of waiting for nobody
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
