"""Finds skills in folders, reads those that have changed, and keeps a book of them that is never older than 2 s."""

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from shared.domain.skill import BrokenSkill, Skill, SkillBook, SkillPlace, book_of
from shared.domain.skill_file import BadSkill, read_skill
from shared.ports.clock import Clock

log = structlog.get_logger(__name__)

FILE = "SKILL.md"
LONGEST_FILE = 100_000
"""Bytes. A longer one would fill the prompt by itself, and no result of a tool could hold it."""

MOST_TOGETHER = 10_000_000
MOST_SKILLS = 500
MOST_ENTRIES = 10_000
DEEPEST = 6
LOOK_EVERY = 0.7
SETTLES_IN = 0.3
"""Seconds in which nothing may have changed before a change is taken in: files are seen half-written."""

LOOKS_UNTIL_TAKEN = 3
"""What changes without end is taken in as it is."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it lay there: enough to know it again."""

    place: str
    folder_name: str
    folder: str
    state: tuple[int, int, int, int]


@dataclass(slots=True)
class _Look:
    """What one look at all folders has found, without reading anything."""

    files: dict[str, _Seen] = field(default_factory=dict)
    broken: list[BrokenSkill] = field(default_factory=list)
    entries: int = 0


class _Full(Exception):
    """There is more than is looked at."""


class SkillFolders:
    """The folders, later ones overriding earlier ones. Blocking; calls must not overlap."""

    def __init__(self, folders: Sequence[SkillPlace]) -> None:
        self._folders = folders
        self._read: dict[str, tuple[_Seen, Skill | BrokenSkill]] = {}

    def look(self) -> _Look:
        """What lies there now."""
        look = _Look()
        for folder in self._folders:
            self._look_into(folder, look)
        return look

    def read(self, look: _Look) -> SkillBook:
        """The book of it. A file that was read before and has not changed is not read again."""
        known: dict[str, tuple[_Seen, Skill | BrokenSkill]] = {}
        found: list[Skill] = []
        broken = list(look.broken)
        room = MOST_TOGETHER
        for path, seen in look.files.items():
            room -= seen.state[1]
            if room < 0:
                broken.append(BrokenSkill(seen.place, f"all skills together exceed {MOST_TOGETHER} bytes"))
                continue
            held = self._read.get(path)
            known[path] = held if held is not None and held[0] == seen else (seen, _read(path, seen))
            what = known[path][1]
            if isinstance(what, Skill):
                found.append(what)
            else:
                broken.append(what)
        self._read = known
        book = book_of(found, broken)
        book.scores("")  # prepares the index, here and not in the event loop
        return book

    def _look_into(self, folder: SkillPlace, look: _Look) -> None:
        look.entries = 0
        try:
            within = folder.within.resolve()
            if not os.path.lexists(folder.path):
                return
            if not folder.path.resolve().is_relative_to(within):
                look.broken.append(BrokenSkill(folder.told_as, "it leads out of its folder"))
                return
            if not folder.path.is_dir():
                look.broken.append(BrokenSkill(folder.told_as, "it is not a folder"))
                return
            _descend(str(folder.path), folder.told_as, within, 0, look)
        except _Full as limit:
            look.broken.append(BrokenSkill(folder.told_as, str(limit)))
        except (OSError, RuntimeError, ValueError) as error:
            look.broken.append(BrokenSkill(folder.told_as, f"it can't be read ({type(error).__name__})"))


def _descend(folder: str, told_as: str, within: Path, depth: int, look: _Look) -> None:
    """Skills in the folders of this folder. What lies below a skill is that skill's own."""
    with os.scandir(folder) as listed:
        entries = {entry.name: entry for entry in listed if not entry.name.startswith(".")}
    look.entries += len(entries)
    if look.entries > MOST_ENTRIES:
        raise _Full(f"it holds more than {MOST_ENTRIES} files and folders; the rest is not looked at")
    file = entries.get(FILE)
    if file is not None and depth > 0:
        _take(file, told_as, within, look, alone=len(entries) == 1)
        return
    if file is not None:
        look.broken.append(BrokenSkill(f"{told_as}/{FILE}", "a skill lies in a folder of its own"))
    for name in sorted(entries):
        place = f"{told_as}/{_printable(name)}"
        try:
            _enter(entries[name], place, within, depth, look)
        except (OSError, RuntimeError) as error:
            look.broken.append(BrokenSkill(place, f"it can't be read ({type(error).__name__})"))


def _enter(entry: os.DirEntry[str], place: str, within: Path, depth: int, look: _Look) -> None:
    """Go into what is a folder, and say of what is none because of its link."""
    if not entry.is_dir():
        if entry.is_symlink() and not os.path.exists(entry.path):  # noqa: PTH110 - it never raises
            look.broken.append(BrokenSkill(place, "it is a link to nothing"))
    elif _leads_out(entry, within):
        look.broken.append(BrokenSkill(place, "it is a link that leads out of its folder"))
    elif depth == DEEPEST:
        look.broken.append(BrokenSkill(place, f"it lies more than {DEEPEST} folders deep"))
    else:
        _descend(entry.path, place, within, depth + 1, look)


def _take(file: os.DirEntry[str], told_as: str, within: Path, look: _Look, *, alone: bool) -> None:
    """Note a skill, or why it is none."""
    place = f"{told_as}/{FILE}"
    if _leads_out(file, within):
        look.broken.append(BrokenSkill(place, "it is a link that leads out of its folder"))
        return
    state = file.stat()
    if not stat.S_ISREG(state.st_mode):
        look.broken.append(BrokenSkill(place, "it is not a file"))
    elif state.st_size > LONGEST_FILE:
        look.broken.append(BrokenSkill(place, f"it has more than {LONGEST_FILE} bytes"))
    elif len(look.files) >= MOST_SKILLS:
        raise _Full(f"there are more than {MOST_SKILLS} skills; the rest is not looked at")
    else:
        version = (state.st_mtime_ns, state.st_size, state.st_ino, state.st_ctime_ns)
        folder_name = told_as.rpartition("/")[2]
        look.files[file.path] = _Seen(place, folder_name, "" if alone else told_as, version)


def _leads_out(entry: os.DirEntry[str], within: Path) -> bool:
    return entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(within)


def _read(path: str, seen: _Seen) -> Skill | BrokenSkill:
    try:
        # Not to be held up by what has been put in the file's place since it was looked at.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return BrokenSkill(seen.place, "it is not a file")
            raw = file.read(LONGEST_FILE + 1)
        if len(raw) > LONGEST_FILE:
            return BrokenSkill(seen.place, f"it has more than {LONGEST_FILE} bytes")
        return read_skill(raw, folder_name=seen.folder_name, place=seen.place, folder=seen.folder)
    except BadSkill as fault:
        return BrokenSkill(seen.place, str(fault))
    except Exception as error:  # noqa: BLE001 - the door: one file must not end the worker that looks at it
        return BrokenSkill(seen.place, f"it can't be read ({type(error).__name__})")


def _printable(name: str) -> str:
    """A file's name may hold bytes that are no text."""
    return name.encode("utf-8", "replace").decode("utf-8")


class SkillShelf:
    """Keeps the book of skills up to date. A look is made in a thread, for folders may lie on a network."""

    def __init__(self, folders: SkillFolders, clock: Clock) -> None:
        self._folders = folders
        self._clock = clock
        self._book = SkillBook()
        self._taken: _Look | None = None
        self._looking = asyncio.Lock()

    @property
    def book(self) -> SkillBook:
        """All skills as they were last read."""
        return self._book

    async def look(self) -> SkillBook:
        """Read what has changed, now."""
        async with self._looking:
            await self._take(await asyncio.to_thread(self._folders.look))
        return self._book

    async def watch(self) -> None:
        """Look again and again; never ends."""
        while True:
            await self._clock.sleep(LOOK_EVERY)
            async with self._looking:
                await self._look_for_changes()

    async def _look_for_changes(self) -> None:
        look = await asyncio.to_thread(self._folders.look)
        if look == self._taken:
            return
        for _ in range(LOOKS_UNTIL_TAKEN):
            await self._clock.sleep(SETTLES_IN)
            before, look = look, await asyncio.to_thread(self._folders.look)
            if look == before:
                break
        await self._take(look)

    async def _take(self, look: _Look) -> None:
        if look == self._taken:
            return
        old, self._book = self._book, await asyncio.to_thread(self._folders.read, look)
        self._taken = look
        _tell(old, self._book)


def _tell(old: SkillBook, new: SkillBook) -> None:
    """Say once what has changed."""
    before: Mapping[str, Skill] = {skill.name: skill for skill in old.skills}
    after: Mapping[str, Skill] = {skill.name: skill for skill in new.skills}
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    updated = [name for name in after if name in before and after[name] != before[name]]
    if added or updated or removed:
        log.info("skills_changed", count=len(after), added=added, updated=updated, removed=removed)
    for broken in new.broken:
        if broken not in old.broken:
            log.warning("skill_skipped", skill=broken.place, reason=broken.reason)
