"""What a sandboxed command sees of the machine. Pure: paths in, the command line of bubblewrap out.

Nothing is there but what is named: the system's programs, read-only; the folders that tools may write; an empty home.
Processes, shared memory and host name are its own, capabilities are dropped.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

SYSTEM = tuple(map(Path, ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix")))
"""Where programs and their settings lie."""

GUARDED = tuple(map(Path, ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers", "/etc/ssh")))
"""Of the system's files those that root alone may read: Lucyd may run as root."""

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a command sees. All paths are absolute and real, but for ``system``, which may be links.

    ``hidden`` folders are empty to it, ``hidden`` files have no content. Of two that lie in each other the deeper one
    counts; of the same path, ``hidden``.
    """

    writable: Collection[Path]
    readable: Collection[Path]
    hidden_folders: Collection[Path]
    hidden_files: Collection[Path]
    system: Sequence[Path]
    links: Sequence[tuple[Path, str]]
    home: Path | None
    network: bool


def bubblewrap(program: str, seen: Seen) -> tuple[str, ...]:
    """The words before the command's own."""
    words = [program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
    words += ["--share-net"] if seen.network else []
    for path, target in seen.links:
        words += ["--symlink", target, str(path)]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"]  # noqa: S108 - the sandbox's own
    mounts: dict[Path, tuple[str, ...]] = {}
    if seen.home is not None:
        mounts[seen.home] = ("--tmpfs", str(seen.home))
    for path in (*seen.system, *seen.readable):
        mounts[path] = ("--ro-bind", str(path), str(path))
    for path in seen.writable:
        mounts[path] = ("--bind", str(path), str(path))
    for path in seen.hidden_folders:
        mounts[path] = ("--tmpfs", str(path))
    for path in seen.hidden_files:
        mounts[path] = ("--ro-bind", "/dev/null", str(path))
    for path in sorted(mounts, key=lambda path: (len(path.parts), str(path))):
        words += mounts[path]
    return tuple(words)


def folders_of_programs(path: str, *, home: Path | None, system: Collection[Path]) -> list[Path]:
    """What must be readable for the programs of ``PATH`` to run: the folder that has them, or the one around it where
    it is the ``bin`` of something installed beside the system, such as a Python of pyenv or a venv."""
    found = []
    for each in path.split(":"):
        folder = Path(each)
        if not folder.is_absolute() or any(folder.is_relative_to(place) for place in system):
            continue
        around = folder.parent
        # Around ~/bin and ~/.local/bin lies much that is nobody's business.
        ordinary = around in {ROOT, home} or (home is not None and around == home / ".local")
        found.append(around if folder.name == "bin" and not ordinary else folder)
    return found
