"""The two embedded servers together."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local import state
from deploy.local.embedded_postgres import run_postgres
from deploy.local.embedded_valkey import run_valkey
from deploy.local.given_redis import check_redis
from deploy.local.keeper import Keeper
from shared.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers are. The URLs carry passwords, so ``repr`` leaves them out."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    keepers: tuple[Keeper, ...] = field(default=(), repr=False, compare=False)

    def watch(self) -> None:
        """Start again what has died; call it several times a second."""
        for keeper in self.keepers:
            keeper.watch()


@contextmanager
def open_servers(data_dir: Path) -> Iterator[Servers]:
    """Run Postgres and Valkey from ``data_dir`` until the block ends or this process does.

    The database ``lucyd`` exists and the extension ``vector`` can be created; the user is the superuser. ConfigError
    when the folder is in use by another launcher or a server can't run.
    """
    with state.claim(state.open_folder(data_dir)) as claim, run_servers(claim) as servers:
        yield servers


@contextmanager
def run_servers(
    claim: state.Claim,
    database_url: str | None = None,
    redis_url: str | None = None,
    *,
    show: Callable[[str], None] = print,
) -> Iterator[Servers]:
    """Run those servers that no URL is given for, both at once.

    ``show`` gets a line whenever a server died and ``watch`` starts it again. ConfigError when a server can't run, or
    the given Redis can't be used; a given Postgres is looked at by who migrates it.
    """
    if redis_url is not None:
        check_redis(redis_url)
    known = state.read_ports(claim.folder)
    with ExitStack() as stack:
        with ThreadPoolExecutor(max_workers=2) as pool:
            postgres = None
            valkey = None
            if database_url is None:
                postgres = pool.submit(stack.enter_context, run_postgres(claim, known.get("postgres"), show=show))
            if redis_url is None:
                valkey = pool.submit(stack.enter_context, run_valkey(claim, known.get("valkey"), show=show))
        _raise_all(future.exception() for future in (postgres, valkey) if future is not None)
        ports = dict(known)
        keepers = []
        if postgres is not None:
            database_url, ports["postgres"] = postgres.result().url, postgres.result().port
            keepers.append(postgres.result().keeper)
        if valkey is not None:
            redis_url, ports["valkey"] = valkey.result().url, valkey.result().port
            keepers.append(valkey.result().keeper)
        if ports != known:
            state.write_ports(claim.folder, ports)
        yield Servers(database_url or "", redis_url or "", tuple(keepers))


def _raise_all(faults: Iterable[BaseException | None]) -> None:
    """Raise what went wrong, the sentences of both servers together where both have one."""
    found = [fault for fault in faults if fault is not None]
    for fault in found:
        if not isinstance(fault, ConfigError):
            raise fault
    if found:
        raise ConfigError([str(fault) for fault in found])
