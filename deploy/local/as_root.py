"""How root runs Postgres, which refuses to be root.

Not root: nothing to do. Root: the server enters a user namespace in which root's files belong to ``nobody``; no file
changes its owner. Where namespaces are refused (Docker's default profile): the server really becomes ``nobody``, the
cluster is handed to that user, and what it can't reach below somebody's private home stands in ``/var/lib/lucyd``.
"""

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from deploy.local.child import SELF, Child
from shared.errors import ConfigError

SHARED_PLACE = Path("/var/lib/lucyd")
"""Where root keeps what another user must reach."""

_PROBE_TAKES = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Standing:
    """As whom Postgres runs, with which binaries, and where its cluster is."""

    identity: str
    binaries: Path
    cluster: Path
    owner: tuple[int, int]


def stand(binaries: Path, folder: Path, *, namespaces: bool = True, shared_place: Path = SHARED_PLACE) -> Standing:
    """Find a way for Postgres to run with its cluster in ``folder / 'postgres'``.

    ``namespaces`` False means not to try them; ``shared_place`` gets what ``nobody`` can't reach where it is.
    ConfigError when there is no way.
    """
    cluster = folder / "postgres"
    if os.geteuid() != 0:
        return Standing(SELF, binaries, cluster, (os.geteuid(), os.getegid()))
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as fault:
        raise ConfigError(
            ["Postgres refuses to run as root, and there is no user 'nobody': start as a user"]
        ) from fault
    uid, gid = nobody.pw_uid, nobody.pw_gid
    identity = f"namespace:{uid}:{gid}"
    if namespaces and not cluster.is_symlink() and _works(identity, binaries, folder):
        return Standing(identity, binaries, cluster, (0, 0))
    if not _reachable(binaries / "postgres", uid):
        binaries = _copy_binaries(binaries, shared_place)
    folder.chmod(0o710)
    os.chown(folder, -1, gid)  # nobody may pass through the folder, not list it; each file in it is still root's alone
    if cluster.is_symlink() or not _reachable(folder, uid, gid):
        cluster = _move_out(cluster, folder, shared_place)
    return Standing(f"user:{uid}:{gid}", binaries, cluster, (uid, gid))


def hand_over(folder: Path, owner: tuple[int, int]) -> None:
    """Make ``owner`` the owner of everything in ``folder``; nothing happens when the folder is theirs already."""
    if folder.stat().st_uid == owner[0] or os.geteuid() != 0:
        return
    for path, _, files in os.walk(folder):
        for name in files:
            os.chown(Path(path) / name, *owner, follow_symlinks=False)
        os.chown(path, *owner, follow_symlinks=False)


def _works(identity: str, binaries: Path, folder: Path) -> bool:
    """Try it: become that identity, write to the folder, run the binary."""
    script = 'test -w "$1" && exec "$2" --version'
    probe = Child(
        ["/bin/sh", "-c", script, "sh", folder, binaries / "postgres"], log=subprocess.DEVNULL, identity=identity
    )
    worked = probe.wait(_PROBE_TAKES) == 0
    probe.kill()
    probe.stop()
    return worked


def _reachable(path: Path, uid: int, gid: int | None = None) -> bool:
    """Tell whether the user may pass through, or execute, every part of the path."""
    for part in (path, *path.parents):
        status = part.stat()
        wanted = stat.S_IXOTH
        if status.st_uid == uid:
            wanted = stat.S_IXUSR
        elif gid is not None and status.st_gid == gid:
            wanted = stat.S_IXGRP
        if not status.st_mode & wanted:
            return False
    return True


def _make_open(folder: Path) -> None:
    """Make a folder that everybody may enter, whatever the umask."""
    if not folder.exists():
        folder.mkdir(parents=True)
        folder.chmod(0o755)


def _copy_binaries(binaries: Path, shared: Path) -> Path:
    """Copy the installation to where anybody may execute it, once per version of it."""
    package = binaries.parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    mark = (binaries / "postgres").stat()
    version = hashlib.sha256(f"{package}:{mark.st_size}:{mark.st_mtime_ns}".encode()).hexdigest()[:12]
    place = shared / f"postgres-{version}"
    if not place.exists():
        _make_open(shared)
        new = shared / f"new-{os.getpid()}"
        shutil.copytree(binaries.parent, new / package.name / binaries.parent.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, new / libraries.name)
        for path, _, _ in os.walk(new):
            Path(path).chmod(0o755)
        if place.exists():
            shutil.rmtree(new)
        else:
            new.rename(place)
    return place / package.name / binaries.parent.name / binaries.name


def _move_out(cluster: Path, folder: Path, shared: Path) -> Path:
    """Place the cluster where nobody can reach it, with a link to it in the data folder."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    place = shared / f"data-{name}"
    target = cluster.readlink() if cluster.is_symlink() else place / "postgres"
    _make_open(shared)
    if not cluster.is_symlink() and folder.stat().st_dev != shared.stat().st_dev:
        # Most likely a volume: what is put elsewhere would not outlive the container.
        raise ConfigError(
            [
                f"Postgres can't run as root, and the user nobody can't enter {folder}: set LUCYD_DATA_DIR to a folder"
                " that every user may enter, such as /var/lib/lucyd/data"
            ]
        )
    _make_open(target.parent)
    if cluster.is_dir() and not cluster.is_symlink():
        shutil.move(cluster, target)
    if not cluster.is_symlink():
        cluster.symlink_to(target)
        print(f"Postgres keeps its files in {target}, since the user nobody can't enter {folder}", flush=True)
    return target
