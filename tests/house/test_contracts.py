"""Who may import whom, and what is installed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK, DEV_LOCK = "requirements.lock", "requirements-dev.lock"
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def locked(name: str) -> dict[str, str]:
    """Each requirement of a lock file: its name, normalised, and the whole line without hashes."""
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line and line[0] not in " #"]
    return {normal(re.split(r"[=\[ ;]", line)[0]): line.removesuffix("\\").strip() for line in lines}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*, dev: bool) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"]["dev"] if dev else project["dependencies"]
    return {normal(re.split(r"[\s\[<>=!~;]", each)[0]) for each in wanted}


@pytest.mark.timeout(300)
def test_imports_only_point_down() -> None:
    """The floor plan holds because the build says so, not because people remember it."""
    done = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [LOCK, DEV_LOCK])
def test_a_lock_file_names_versions_and_hashes_and_no_address(name: str) -> None:
    """Where packages come from is the installer's business; what they are is ours."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "options such as --index-url do not belong into a lock file"
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block or "==" not in block] == []


def test_what_runs_is_what_was_tested() -> None:
    """A version that differs between the two locks would be tested and never run, or run and never tested."""
    runs, tests = locked(LOCK), locked(DEV_LOCK)
    assert {name: line for name, line in runs.items() if tests.get(name) != line} == {}


@pytest.mark.parametrize(("name", "dev"), [(LOCK, False), (DEV_LOCK, False), (DEV_LOCK, True)])
def test_every_declared_dependency_is_locked(name: str, *, dev: bool) -> None:
    """Without it, a fresh installation breaks at the first import."""
    assert declared(dev=dev) - locked(name).keys() == set()
