"""What a sandboxed command sees of the machine. Pure: paths in, the command line of bubblewrap out.

Nothing is there but what is named: the system's programs, read-only; the folders that tools may write; an empty home; a
``/tmp`` of its own. Processes, shared memory and host name are its own, capabilities are dropped.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

SYSTEM = tuple(map(Path, ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix")))
"""Where programs and their settings lie."""

GUARDED = tuple(map(Path, ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers", "/etc/ssh")))
"""Of the system's files those that root alone may read: Lucyd may run as root."""

ROOT = Path("/")
TMP = Path("/tmp")  # noqa: S108 - the sandbox's own
RUN = Path("/run")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the sandbox's own

OWN = (TMP, RUN, SHARED_MEMORY, Path("/dev"), Path("/proc"), Path("/sys"))
"""Never the machine's, whoever names them: sockets of other programs lie there. Folders in them can be named."""

_HOLDS_PROCESSES = 'ulimit -u {0} 2>/dev/null || ulimit -p {0} 2>/dev/null; exec "$@"'
"""Bash calls it ``-u``, dash and busybox ``-p``."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a command may take of memory by files that lie in it, in bytes, and its processes (0: without limit)."""

    home: int
    shared_memory: int
    run: int
    processes: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a command sees. All paths are absolute and real, but for ``system`` and ``links``.

    ``hidden`` folders are empty to it, ``hidden`` files have no content. Of two that lie in each other the deeper one
    counts; of the same path, ``hidden``. ``temporary`` is what it sees as ``/tmp``; ``None``: something that is empty
    each time. ``may_nest``: it may make namespaces of users itself, in which it is root and mounts what it likes, also
    memory without end. Without ``bounds``, and where it ``may_nest``, an old bubblewrap does, too.
    """

    writable: Collection[Path]
    readable: Collection[Path]
    hidden_folders: Collection[Path]
    hidden_files: Collection[Path]
    system: Sequence[Path]
    links: Sequence[tuple[Path, str]]
    home: Path | None
    temporary: Path | None
    network: bool
    bounds: Bounds | None
    may_nest: bool


class Mount(NamedTuple):
    """What lies at a path: a place of the machine, or (``empty``, ``closed``) nothing; ``closed`` stays so."""

    kind: Literal["read", "write", "empty", "closed", "blank"]
    source: Path


def mounts_of(seen: Seen) -> Mapping[Path, Mount]:
    """What lies where. A folder on the way from something writable to another mount is a mount itself.

    For the kernel moves no mount, but everything around it: ``mv a b`` would show the next command ``b/.env``, where
    only ``a/.env`` is hidden.
    """
    mounts: dict[Path, Mount] = {
        TMP: Mount("empty", TMP) if seen.temporary is None else Mount("write", seen.temporary),
        RUN: Mount("empty", RUN),
        SHARED_MEMORY: Mount("empty", SHARED_MEMORY),
    }
    if seen.home is not None:
        mounts[seen.home] = Mount("empty", seen.home)
    mounts |= {path: Mount("read", path) for path in (*seen.system, *seen.readable)}
    mounts |= {path: Mount("write", path) for path in seen.writable}
    mounts |= {path: Mount("closed", path) for path in seen.hidden_folders}
    mounts |= {path: Mount("blank", path) for path in seen.hidden_files}
    for path in list(mounts):
        for between in reversed(path.parents):
            around = next((place for place in between.parents if place in mounts), None)
            if between not in mounts and around is not None and mounts[around].kind == "write":
                mounts[between] = Mount("write", mounts[around].source / between.relative_to(around))
    return {path: mounts[path] for path in sorted(mounts, key=lambda path: (len(path.parts), str(path)))}


def places_in_temporary(seen: Seen) -> list[Path]:
    """Paths below ``/tmp`` at which something is mounted into ``seen.temporary``, the outer first."""
    if seen.temporary is None:
        return []
    mounts = mounts_of(seen)
    below = [path for path in mounts if TMP in (path, *path.parents)]
    own = {path for path in below if mounts[path] == Mount("write", seen.temporary / path.relative_to(TMP))}
    return [path for path in mounts if next((place for place in path.parents if place in mounts), None) in own]


def bubblewrap(program: str, seen: Seen) -> tuple[str, ...]:
    """The words before the command's own."""
    words = [program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
    words += ["--share-net"] if seen.network else []
    # Processes are counted for each namespace of users; without one of its own all that the user has would count.
    words += ["--unshare-user"] if seen.bounds is not None else []
    words += [] if seen.may_nest else ["--disable-userns"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    mounts = mounts_of(seen)
    for path, mount in mounts.items():
        words += _words(path, mount, seen)
    for path, target in seen.links:
        words += ["--symlink", target, str(path)]
    # When all is in its place, since places are made by writing: what takes memory is what a bound is known of.
    for path in (Path("/dev"), *(path for path, mount in mounts.items() if mount.kind == "closed"), ROOT):
        words += ["--remount-ro", str(path)]
    if seen.bounds is not None and seen.bounds.processes:
        words += ["/bin/sh", "-c", _HOLDS_PROCESSES.format(seen.bounds.processes), "sh"]
    return tuple(words)


def _words(path: Path, mount: Mount, seen: Seen) -> list[str]:
    match mount.kind:
        case "read":
            return ["--ro-bind", str(mount.source), str(path)]
        case "write":
            return ["--bind", str(mount.source), str(path)]
        case "blank":
            return ["--ro-bind", "/dev/null", str(path)]
        case "closed":
            return ["--tmpfs", str(path)]
        case "empty":
            return [*_size(path, seen), "--tmpfs", str(path)]


def _size(path: Path, seen: Seen) -> list[str]:
    """Without one, the kernel gives each half of the machine's memory."""
    if seen.bounds is None:
        return []
    known = {SHARED_MEMORY: seen.bounds.shared_memory, RUN: seen.bounds.run}
    return ["--size", str(known.get(path, seen.bounds.home))]


def folders_of_programs(
    folders: Iterable[Path], *, homes: Collection[Path], system: Collection[Path], installed: Collection[Path]
) -> list[Path]:
    """What must be readable for the programs of ``PATH`` to run: the folder that has them, or the one around it where
    it is the ``bin`` of something ``installed`` beside the system, such as a Python of pyenv or a venv.

    All paths are real. A home, and what lies around one, is nobody's business, and around ~/bin and ~/.local/bin lies
    much that is none.
    """
    private = {place for home in homes for place in (home, *home.parents)}
    personal = private | {home / ".local" for home in homes}
    found = []
    for folder in folders:
        if not folder.is_absolute() or folder in private or any(folder.is_relative_to(place) for place in system):
            continue
        around = folder.parent
        is_installed = folder.name == "bin" and around in installed and around not in personal
        found.append(around if is_installed else folder)
    return found
