"""Each service imports only what it uses: it starts faster, and is smaller for as long as it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.launch import SERVICES

ROOT = Path(__file__).resolve().parents[2]

SDKS = {"openai", "anthropic", "mcp"}
"""Imported by the worker when a model of that vendor is configured, and by nobody else."""

NEVER = SDKS | {"pytest", "testcontainers", "hypothesis", "rich", "pygments", "typer", "tests", "cli"}
ONLY_OF = {
    "rq": {"scheduler", "indexer", "consolidator"},
    "apscheduler": {"scheduler"},
    "httpx2": {"agent_worker", "gateway", "telegram_bridge"},
    "pydantic": {"gateway"},
}


def modules_of(module: str) -> set[str]:
    """What a fresh process has after that import."""
    words = [sys.executable, "-c", f"import {module}, sys; print(*sys.modules)"]
    return set(subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


def packages(modules: set[str]) -> set[str]:
    """Their first names."""
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_imports_only_what_it_uses(service: str) -> None:
    """A vendor's client alone costs half a second of CPU and more memory than all of ours."""
    modules = modules_of(f"services.{service}.wiring")
    theirs = {name for name, users in ONLY_OF.items() if service not in users}
    assert packages(modules) & (NEVER | theirs) == set()
    assert {name.split(".")[1] for name in modules if name.startswith("services.")} == {service}


def test_the_launcher_imports_no_service() -> None:
    """It starts them; what it imports itself is waited for before anything starts."""
    assert packages(modules_of("deploy.local.__main__")).isdisjoint(
        {"services", "uvicorn", "starlette", "rq", "rich", *SDKS}
    )


def test_rich_is_there_for_whoever_asks_for_it() -> None:
    """It is kept out of the services' log, not out of the command line."""
    words = [sys.executable, "-c", "import services.gateway.wiring, rich.console; print(rich.console.Console)"]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, check=True).returncode == 0
