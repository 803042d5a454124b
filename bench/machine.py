"""What the figures are of: the machine, the versions and the commit."""

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import redis

ROOT = Path(__file__).resolve().parents[1]


def describe_machine(database_url: str, redis_url: str) -> dict[str, Any]:
    """Everything but the load, which changes."""
    with psycopg.connect(database_url) as connection:
        settings = {name: _setting(connection, name) for name in ("server_version", "fsync", "synchronous_commit")}
    with redis.Redis.from_url(redis_url) as client:
        server = client.info("server")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "postgres": settings.pop("server_version"),
        **settings,
        "redis": _redis_version(server),
        "commit": _commit(),
    }


def load_average() -> list[float]:
    """Of the last 1, 5 and 15 minutes."""
    return [round(figure, 2) for figure in os.getloadavg()]


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute("select current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row else "?"


def _redis_version(server: Mapping[str, Any]) -> str:
    if "valkey_version" in server:
        return f"Valkey {server['valkey_version']}"
    return f"Redis {server.get('redis_version', '?')}"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "?"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit or 'unknown'}{' with changes' if git('status', '--porcelain', '--untracked-files=no') else ''}"
