"""The sandbox that commands run in where the machine has one: bubblewrap, in namespaces of its own.

Whether it works can only be tried: a kernel may refuse user namespaces, a container may refuse mounts, and an old
bubblewrap lacks some of its words.
"""

import os
import pwd
import shutil
import stat
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from services.agent_worker.rules.sandbox import (
    GUARDED,
    OWN,
    ROOT,
    SYSTEM,
    TMP,
    Bounds,
    Seen,
    bubblewrap,
    folders_of_programs,
    places_in_temporary,
)

PROGRAM = "bwrap"
TRIED_WITHIN = 10.0
RESOLVER = Path("/etc/resolv.conf")

HOME_SHARE, HOME_MOST = 8, 1 << 30
SHARED_MEMORY_SHARE, SHARED_MEMORY_MOST = 16, 256 << 20
RUN_MOST = 16 << 20
"""Of the machine's memory a command may fill this much with the files of its home and the like."""

INSTALLED = ("lib", "libexec", "pyvenv.cfg")
"""Beside ``bin`` these tell that something is installed there, which does not run without the rest of it."""

KEPT_SECONDS = 10 * 86_400.0
"""As systems keep what lies in theirs."""

TIDIED_WITHIN = 2.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """``words`` stand before each command; empty: there is none, and ``why`` says so in a sentence.

    ``temporary`` is what commands see as ``/tmp``; ``None``: nothing that is kept. ``places`` in it are where
    others are mounted (folders or not). ``is_bounded``: files in memory, and processes, have a limit that nothing gets
    round.
    """

    words: Sequence[str] = ()
    why: str = ""
    temporary: Path | None = None
    places: Sequence[tuple[Path, bool]] = ()
    is_bounded: bool = False

    def make_ready(self) -> None:
        """Make what has to be there, if somebody has tidied. Raises ``OSError``.

        Commands see mounts at the ``places``, so none can put a link there; what one has left before a place was named
        goes: bubblewrap would follow it out of the sandbox.
        """
        if self.temporary is None:
            return
        self.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place, is_folder in self.places:
            if place.is_symlink() or place.is_dir() != is_folder:
                _remove(place)
            if is_folder:
                place.mkdir(mode=0o700, exist_ok=True)
            else:
                place.touch(mode=0o600)

    def tidy(self) -> None:
        """Remove what commands have left in ``/tmp`` and nobody has changed for ten days. Takes two seconds at most."""
        if self.temporary is not None:
            tidy(self.temporary, before=time.time() - KEPT_SECONDS, keep=[path for path, _ in self.places])


def find_sandbox(
    mode: Literal["auto", "required", "off"],
    *,
    workspace: Path,
    writable: Iterable[Path],
    readable: Iterable[Path],
    hidden: Iterable[Path],
    environment: Mapping[str, str],
    network: bool,
    temporary: Path | None = None,
    processes: int = 0,
) -> Sandbox:
    """Try it, and again for an old bubblewrap without what it lacks. Blocks for up to half a minute.

    ``workspace`` and ``writable`` folders may be written, ``readable`` ones read, ``hidden`` ones are empty; those that
    do not exist are left out. ``environment`` is the command's: its ``PATH`` and ``HOME`` are seen to. ``temporary``
    becomes its ``/tmp``; it is made if it is not there, and may lie in what is hidden.
    """
    if mode == "off":
        return Sandbox(why="[tools.exec] sandbox is off")
    program = shutil.which(PROGRAM)
    if program is None:
        return Sandbox(why="bubblewrap (bwrap) is not installed")
    seen = _seen([workspace, *writable], [*readable], [*hidden], environment=environment, network=network)
    own = _made(temporary)
    # At its real place as well: tools tell real paths.
    seen = replace(seen, temporary=own, writable=[*seen.writable, *([own] if own else [])], bounds=_bounds(processes))
    sandbox = Sandbox()
    for each in (replace(seen, may_nest=False), seen, replace(seen, bounds=None)):
        sandbox = _tried(program, each, workspace, environment)
        if sandbox.words:
            break
    return sandbox


def kept_below(folders: Iterable[Path], kept: Iterable[Path]) -> list[Path]:
    """What may only be read where all around it may be written. What is not seen anyway needs no mount."""
    real = [folder.expanduser().resolve() for folder in folders]
    places = [place.expanduser().resolve() for place in kept]
    return [place for place in places if any(place.is_relative_to(each) and place != each for each in real)]


def tidy(folder: Path, *, before: float, keep: Collection[Path] = ()) -> None:
    """Remove files that were last changed ``before`` that moment, and folders that are empty then; ``keep`` stay.

    Commands have written there, so links are removed and never followed.
    """
    with suppress(RecursionError):  # somebody has made a thousand folders in each other
        _tidy(folder, before, {str(path) for path in keep})


def _tidy(folder: Path, before: float, kept: Collection[str]) -> None:
    ends = time.monotonic() + TIDIED_WITHIN
    for name, folders, files, here in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for each in (*files, *folders):
            if time.monotonic() > ends:
                return
            if os.path.join(name, each) in kept:  # noqa: PTH118 - paths of the walk are texts
                continue
            with suppress(OSError):  # gone meanwhile, or a folder that holds something
                told = os.stat(each, dir_fd=here, follow_symlinks=False)
                if max(told.st_mtime, told.st_ctime) < before:
                    remove = os.rmdir if stat.S_ISDIR(told.st_mode) else os.unlink
                    remove(each, dir_fd=here)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _tried(program: str, seen: Seen, workspace: Path, environment: Mapping[str, str]) -> Sandbox:
    words = bubblewrap(program, seen)
    at = places_in_temporary(seen)
    places = [(seen.temporary / path.relative_to(TMP), path.is_dir()) for path in at] if seen.temporary else []
    sandbox = Sandbox(
        words, temporary=seen.temporary, places=places, is_bounded=seen.bounds is not None and not seen.may_nest
    )
    try:
        sandbox.make_ready()
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
    return sandbox


def _seen(
    writable: Collection[Path],
    readable: Collection[Path],
    hidden: Collection[Path],
    *,
    environment: Mapping[str, str],
    network: bool,
) -> Seen:
    system = [path for path in SYSTEM if path.is_dir() and not path.is_symlink()]
    named_home = [Path(environment["HOME"])] if environment.get("HOME") else []
    home = _existing(named_home)
    own_home = home[0] if home and home[0] not in OWN and not _below(home[0], system) else None
    resolver = [RESOLVER.resolve()] if RESOLVER.is_symlink() else []
    concealed = _existing([*hidden, *GUARDED])
    own = {*OWN, *_existing(OWN)}
    kept = [path for path in _existing(writable) if path not in own]
    read = _existing([*_programs(environment.get("PATH", ""), home), *resolver, *readable])
    links = [(path, str(path.readlink())) for path in SYSTEM if path.is_symlink()]
    return Seen(
        writable=kept,
        readable=[path for path in read if path not in own],
        hidden_folders=[path for path in concealed if path.is_dir()],
        hidden_files=[path for path in concealed if not path.is_dir()],
        system=system,
        links=[*links, *_links_on_the_way([*named_home, *writable, *readable], [*kept, *read, *SYSTEM, *OWN])],
        home=own_home,
        temporary=None,
        network=network,
        bounds=None,
        may_nest=True,
    )


def _programs(path: str, home: Collection[Path]) -> list[Path]:
    """The real folders of ``PATH`` and around it; ``home`` is that of the environment, beside the user's own."""
    folders = _existing(Path(each) for each in path.split(":") if each.startswith("/"))
    around = {folder.parent for folder in folders}
    installed = {each for each in around if any((each / mark).exists() for mark in INSTALLED)}
    return folders_of_programs(folders, homes={*home, *_users_home()}, system=SYSTEM, installed=installed)


def _users_home() -> list[Path]:
    with suppress(KeyError):  # a user that the machine does not know, as in containers
        return _existing([Path(pwd.getpwuid(os.getuid()).pw_dir)])
    return []


def _links_on_the_way(paths: Iterable[Path], there: Collection[Path]) -> list[tuple[Path, str]]:
    """Links that lead to what is named, such as a ``/home`` that is ``/var/home``: people write them, and so do models.

    Those that lie in what is ``there`` are seen by themselves.
    """
    found: dict[Path, str] = {}
    for path in paths:
        absolute = path.expanduser().absolute()
        for each in (*reversed(absolute.parents), absolute):
            if each.is_symlink():
                link = each.parent.resolve() / each.name
                if not _below(link, there):
                    found[link] = str(each.readlink())
    return list(found.items())


def _made(folder: Path | None) -> Path | None:
    """The real folder, for this user alone; ``None`` if it can't be had."""
    if folder is None:
        return None
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder.resolve()
    return None


def _bounds(processes: int) -> Bounds:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Bounds(
        home=min(memory // HOME_SHARE, HOME_MOST),
        shared_memory=min(memory // SHARED_MEMORY_SHARE, SHARED_MEMORY_MOST),
        run=min(memory // SHARED_MEMORY_SHARE, RUN_MOST),
        processes=processes,
    )


def _below(path: Path, places: Iterable[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _existing(paths: Iterable[Path]) -> list[Path]:
    """The real places of those that are there, the root itself left out: it would be everything."""
    real = (path.expanduser().resolve() for path in paths)
    return [path for path in dict.fromkeys(real) if path != ROOT and path.exists()]
