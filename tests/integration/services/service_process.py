"""Real service processes, as the launcher and compose start them."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import redis.asyncio

PROJECT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every process of a test shares."""

    database_url: str
    redis_url: str
    client: redis.asyncio.Redis
    data_dir: Path


@dataclass(slots=True)
class Running:
    """A process of ours."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    client: redis.asyncio.Redis

    def said(self) -> str:
        """All it has logged."""
        return self.log.read_text("utf-8")

    def events(self) -> list[dict[str, object]]:
        """Its log as events."""
        return [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]

    async def monitor(self) -> Mapping[str, str]:
        """Its monitor hash; empty when there is none."""
        async for key in self.client.scan_iter(f"lucyd:monitor:service:{self.name}:*"):
            fields: dict[str, str] = await self.client.hgetall(key)  # type: ignore[assignment]  # it decodes
            if fields.get("pid") == str(self.process.pid):
                return fields
        return {}

    async def ready(self) -> Mapping[str, str]:
        """Its monitor hash as soon as it is there and ``/readyz`` says yes; within 40 seconds."""
        found: Mapping[str, str] = {}

        async def is_ready() -> bool:
            nonlocal found
            found = await self.monitor()
            return bool(found.get("health")) and await asyncio.to_thread(_answers, found["health"] + "/readyz")

        await until(is_ready, 40, self.said)
        return found

    async def stop(self) -> int:
        """SIGTERM, and the exit code; within 30 seconds."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 30)


@contextlib.asynccontextmanager
async def started(name: str, where: Surroundings, *arguments: str, **environment: str) -> AsyncIterator[Running]:
    """Start ``python -m services.<name>``; what still runs at the end is killed."""
    log = where.data_dir / f"{name}-{time.monotonic_ns()}.log"
    plain = {key: os.environ[key] for key in ("PATH", "LANG", "LD_LIBRARY_PATH") if key in os.environ}
    settings = {
        "HOME": str(where.data_dir),
        "LUCYD_DATABASE_URL": where.database_url,
        "LUCYD_REDIS_URL": where.redis_url,
        "LUCYD_DATA_DIR": str(where.data_dir),
        "OPENAI_API_KEY": "unused",
    }
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"services.{name}",
            *arguments,
            cwd=PROJECT,
            env={**plain, **settings, **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield Running(name, process, log, where.client)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until(condition: Callable[[], Awaitable[bool]], seconds: float, tell: Callable[[], str] = str) -> None:
    """Wait until it holds."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"it did not happen within {seconds} s; the log: {tell()[-3000:]}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - our own health address
            return bool(response.status == 200)
    except OSError:
        return False
