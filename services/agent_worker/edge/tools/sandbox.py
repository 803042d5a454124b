"""The sandbox that commands run in where the machine has one: bubblewrap, in namespaces of its own.

Whether it works can only be tried: a kernel may refuse user namespaces, a container may refuse mounts.
"""

import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from services.agent_worker.rules.sandbox import GUARDED, ROOT, SYSTEM, Seen, bubblewrap, folders_of_programs

PROGRAM = "bwrap"
TRIED_WITHIN = 10.0
RESOLVER = Path("/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """``words`` stand before each command; empty: there is none, and ``why`` says so in a sentence."""

    words: Sequence[str] = ()
    why: str = ""


def find_sandbox(
    mode: Literal["auto", "required", "off"],
    *,
    workspace: Path,
    writable: Iterable[Path],
    readable: Iterable[Path],
    hidden: Iterable[Path],
    environment: Mapping[str, str],
    network: bool,
) -> Sandbox:
    """Try it once. Blocks for up to ten seconds.

    ``workspace`` and ``writable`` folders may be written, ``readable`` ones read, ``hidden`` ones are empty; those that
    do not exist are left out. ``environment`` is the command's: its ``PATH`` and ``HOME`` are seen to.
    """
    if mode == "off":
        return Sandbox(why="[tools.exec] sandbox is off")
    program = shutil.which(PROGRAM)
    if program is None:
        return Sandbox(why="bubblewrap (bwrap) is not installed")
    seen = _seen([workspace, *writable], [*readable], [*hidden], environment=environment, network=network)
    words = bubblewrap(program, seen)
    try:
        tried = subprocess.run(
            [*words, "/bin/sh", "-c", ":"],
            cwd=workspace,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIED_WITHIN,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return Sandbox(why=f"bubblewrap can't be used here: {type(fault).__name__}")
    if tried.returncode != 0:
        said = tried.stderr.decode(errors="replace").strip().splitlines()
        return Sandbox(why=f"bubblewrap can't be used here: {said[-1][:200] if said else tried.returncode}")
    return Sandbox(words)


def _seen(
    writable: Collection[Path],
    readable: Collection[Path],
    hidden: Collection[Path],
    *,
    environment: Mapping[str, str],
    network: bool,
) -> Seen:
    system = [path for path in SYSTEM if path.is_dir() and not path.is_symlink()]
    home = _existing([Path(environment["HOME"])]) if environment.get("HOME") else []
    own_home = home[0] if home and home[0] != ROOT and not _below(home[0], system) else None
    programs = folders_of_programs(environment.get("PATH", ""), home=own_home, system=SYSTEM)
    resolver = [RESOLVER.resolve()] if RESOLVER.is_symlink() else []
    concealed = _existing([*hidden, *GUARDED])
    return Seen(
        writable=_existing(writable),
        readable=_existing([*programs, *resolver, *readable]),
        hidden_folders=[path for path in concealed if path.is_dir()],
        hidden_files=[path for path in concealed if not path.is_dir()],
        system=system,
        links=[(path, str(path.readlink())) for path in SYSTEM if path.is_symlink()],
        home=own_home,
        network=network,
    )


def _below(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _existing(paths: Iterable[Path]) -> list[Path]:
    """The real places of those that are there, the root itself left out: it would be everything."""
    real = (path.expanduser().resolve() for path in paths)
    return [path for path in dict.fromkeys(real) if path != ROOT and path.exists()]
