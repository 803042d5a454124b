"""Which files the agent's tools may touch."""

from collections.abc import Sequence
from pathlib import Path

from services.agent_worker.ports import ToolFailed

PERSONALITY_FILES = ("SOUL.md", "AGENTS.md", "TOOLS.md", "MAINTAIN.md")
"""What makes the agent who it is; it may read these in its workspace, and only people may change them."""

FILE_PATH = {"type": "string", "description": "Path of the file: absolute, or relative to the workspace."}
"""How a tool takes the path of a file."""


PROCESSES = Path("/proc")
"""What each process was given as its environment stands there."""

TMP = Path("/tmp")  # noqa: S108 - what a path of a model may begin with


class AllowedPaths:
    """The folders that tools may work in. Without any folder nothing is allowed.

    ``hidden`` files and folders (secrets) are not, nor what lies in them; of two that lie in each other the deeper one
    counts. All are followed to their real places once, here: whoever can swap a folder for a link later gains nothing.

    ``temporary`` is the folder that commands see as ``/tmp``. If ``/tmp`` is allowed, a path in it is one in
    ``temporary``, unless it, or the folder that it begins with, is there in the machine's own alone: tools and commands
    hand each other files by one path.

    ``kept`` files and folders may be read and not changed, unless one of them, or a folder in it, is itself allowed.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        workspace: Path,
        *,
        hidden: Sequence[Path] = (),
        kept: Sequence[Path] = (),
        temporary: Path | None = None,
    ) -> None:
        self._roots = tuple(root.expanduser().resolve() for root in roots)
        self._hidden = (PROCESSES, *(path.expanduser().resolve() for path in hidden))
        self._kept = tuple(path.expanduser().resolve() for path in kept)
        self._workspace = workspace.expanduser().resolve()
        self._tmp = TMP.resolve()
        self._temporary = temporary.resolve() if temporary is not None and self._tmp in self._roots else None

    @property
    def workspace(self) -> Path:
        """The real path that relative paths start from."""
        return self._workspace

    def resolve(self, text: str) -> Path:
        """The real, absolute path that ``text`` leads to, all links followed; the file need not exist.

        Raises ``ToolFailed`` when the text is no path or the real path lies in none of the folders.
        """
        if not text:
            raise ToolFailed("the path is empty")
        if "\0" in text:
            raise ToolFailed("the path contains a NUL byte")
        try:
            path = self._where_commands_see_it((self._workspace / Path(text).expanduser()).resolve())
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, an unknown ~user, no encoding
            raise ToolFailed("the path cannot be resolved") from error
        own = () if self._temporary is None else (self._temporary,)
        around = _deepest(path, (*self._roots, *own))
        if around > 0 and _deepest(path, self._hidden) >= around:
            raise ToolFailed(f"Access denied: {text[:200]} is none of the tools' business")
        if around == 0:
            folders = ", ".join(str(root) for root in self._roots) or "none"
            raise ToolFailed(f"Access denied: {text[:200]} is outside the allowed folders ({folders})")
        return path

    def refuse_change(self, path: Path) -> None:
        """Raise ``ToolFailed`` if ``path`` (real) may only be read."""
        if _deepest(path, self._kept) > _deepest(path, self._roots):
            raise ToolFailed(f"{path.name} is part of how Lucyd is set up and cannot be changed by tools")

    def _where_commands_see_it(self, path: Path) -> Path:
        if self._temporary is None or _deepest(path, self._roots) != len(self._tmp.parts) or path == self._tmp:
            return path
        if path.is_relative_to(self._temporary):
            return path
        below = path.relative_to(self._tmp)
        own, first = self._temporary / below, below.parts[0]
        is_theirs = path.exists() or ((self._tmp / first).exists() and not (self._temporary / first).exists())
        return path if is_theirs and not own.exists() else own.resolve()


def _deepest(path: Path, places: Sequence[Path]) -> int:
    """Of the places around a path, how many parts the deepest has; 0 for none."""
    return max((len(place.parts) for place in places if path.is_relative_to(place)), default=0)


class ProtectedFiles:
    """Files of the workspace that tools may read and not change, known by name wherever below it they lie."""

    def __init__(self, names: Sequence[str], workspace: Path) -> None:
        self._names = tuple(names)
        # Some file systems do not tell soul.md from SOUL.md; none of ours has a use for both.
        self._folded = frozenset(name.casefold() for name in names)
        self._workspace = workspace.resolve()

    def refuse(self, path: Path) -> None:
        """Raise ``ToolFailed`` if ``path`` (real) has a protected name, or such a name leads to it."""
        named = path.name.casefold() in self._folded and path.is_relative_to(self._workspace)
        if named or any((self._workspace / name).resolve() == path for name in self._names):
            raise ToolFailed(f"{path.name} is protected and cannot be changed by tools")
