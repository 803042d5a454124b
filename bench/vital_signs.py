"""What is looked at during a soak: processes, Postgres, Redis and the disk, as numbers by name. Linux only."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import redis

from bench.processes import descendants, resident_bytes
from bench.town import Town
from shared.messages import routes

_CONNECTIONS = """
select coalesce(nullif(application_name, ''), backend_type), count(*) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid() group by 1
"""
_TABLES = """
select relname, pg_total_relation_size(relid), n_dead_tup, n_live_tup from pg_stat_user_tables
"""
_WHOLE = """
select pg_database_size(current_database()), (select coalesce(sum(size), 0) from pg_ls_waldir()),
       (select coalesce(sum(size), 0) from pg_ls_tmpdir())
"""
_STREAMS = (routes.INBOUND, routes.CONTROL, routes.DEAD, routes.outbound("telegram"))


def sample(town: Town, connection: psycopg.Connection[Any], client: redis.Redis) -> dict[str, float]:
    """Everything now. The connection must be in autocommit, the client must not decode."""
    found: dict[str, float] = {}
    for name, pid in town.pids().items():
        found |= _process(name, pid)
    backends = descendants(town.postmaster())
    for name, field in (("private.postgres", "Pss_Anon:"), ("shared.postgres", "Pss_Shmem:")):
        found[name] = sum(filter(None, (_of_rollup(pid, field) for pid in backends)))
    found["processes.postgres"] = len(backends)
    return found | _postgres(connection) | _redis(client) | _disk(town)


def _process(name: str, pid: int) -> dict[str, float]:
    home = Path("/proc") / str(pid)
    found: dict[str, float] = {f"rss.{name}": resident_bytes(pid)}
    if (pss := _of_rollup(pid, "Pss:")) is not None:
        found[f"pss.{name}"] = pss
    found[f"handles.{name}"] = sum(1 for _ in os.scandir(home / "fd"))
    found[f"threads.{name}"] = sum(1 for _ in os.scandir(home / "task"))
    return found


def _of_rollup(pid: int, field: str) -> int | None:
    """Memory in proportion to who shares it; ``None`` where the kernel does not tell, or the process is gone."""
    try:
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)


def _postgres(connection: psycopg.Connection[Any]) -> dict[str, float]:
    found: dict[str, float] = {
        f"connections.{name}": count for name, count in connection.execute(_CONNECTIONS).fetchall()
    }
    dead = live = 0
    for name, size, gone, there in connection.execute(_TABLES).fetchall():
        found[f"table.{name}"] = size
        found[f"dead.{name}"] = gone
        dead, live = dead + gone, live + there
    found["dead.share"] = dead / max(1, dead + live)
    database, wal, temporary = connection.execute(_WHOLE).fetchall()[0]
    return found | {"disk.database": database, "disk.wal": float(wal), "disk.postgres_temporary": float(temporary)}


def _redis(client: redis.Redis) -> dict[str, float]:
    memory, clients = client.info("memory"), client.info("clients")
    prefixes = Counter(_prefix(key.decode("utf-8", "replace")) for key in client.scan_iter(count=5000))
    found: dict[str, float] = {
        "redis.used_memory": memory["used_memory"],
        "redis.clients": clients["connected_clients"],
        "redis.keys": sum(prefixes.values()),
        "redis.without_ttl": _without_ttl(client),
        "redis.subscriptions": len(client.pubsub_channels()),
    }
    found |= {f"keys.{name}": count for name, count in prefixes.items()}
    return found | {f"stream.{name}": _length(client, name) for name in _STREAMS}


def _without_ttl(client: redis.Redis) -> int:
    told = client.info("keyspace").get("db0", {"keys": 0, "expires": 0})
    return int(told["keys"]) - int(told["expires"])


def _length(client: redis.Redis, name: str) -> int:
    return int(client.xlen(name))


def _prefix(key: str) -> str:
    """The road a key belongs to: ids and names are left out."""
    if key.startswith("lucyd:run:"):
        return f"lucyd:run:*:{key.rpartition(':')[2]}"
    for known in (routes.MONITOR_SESSIONS, routes.MONITOR_SERVICES, routes.MONITOR_WORKERS, "lucyd:owner:"):
        if key.startswith(known):
            return known + "*"
    parts = key.split(":")
    return ":".join(parts[:2]) + (":*" if len(parts) > 2 else "")


def _disk(town: Town) -> dict[str, float]:
    folder = town.stack.folder
    logs = {f"log.{file.stem.rpartition('-')[0]}": 0.0 for file in folder.glob("*.log")}
    for file in folder.glob("*.log"):
        logs[f"log.{file.stem.rpartition('-')[0]}"] += file.stat().st_size
    rest = _size(path for path in folder.rglob("*") if path.suffix != ".log")
    return {**logs, "disk.data_folder": rest}


def _size(files: Iterable[Path]) -> float:
    total = 0
    for file in files:
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:  # it has gone meanwhile
            continue
    return total


class Chart:
    """Samples by name, each with the seconds since the chart began."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.series: dict[str, list[tuple[float, float]]] = {}

    def note(self, found: Mapping[str, float]) -> None:
        """Add one sample; a name that was there before and is not now counts as 0."""
        at = time.monotonic() - self._began
        for name in {*found, *self.series}:
            self.series.setdefault(name, []).append((at, found.get(name, 0.0)))
