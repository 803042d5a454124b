"""Skills as they lie in real folders: found, read once, skipped with a reason, and taken in when they change."""

import asyncio
import os
from pathlib import Path

import pytest

from shared.adapters.skill_folders import DEEPEST, LONGEST_FILE, LOOK_EVERY, MOST_SKILLS, SkillFolders, SkillShelf
from shared.adapters.system_clock import SystemClock
from shared.domain.skill import SkillBook, SkillPlace


def place(workspace: Path, name: str = "skills") -> SkillPlace:
    return SkillPlace(workspace / name, workspace, name)


def write(folder: Path, text: str | bytes = "body") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def look(*places: SkillPlace) -> SkillBook:
    folders = SkillFolders(places)
    return folders.read(folders.look())


def reasons(book: SkillBook) -> dict[str, str]:
    return {broken.place: broken.reason for broken in book.broken}


def test_skills_are_found_at_any_depth_and_what_lies_in_a_skill_is_its_own(tmp_path: Path) -> None:
    """Folders of folders put skills in order; the files of a skill may hold examples of others."""
    write(tmp_path / "skills" / "tea")
    (tmp_path / "skills" / "tea" / "scripts").mkdir()
    write(tmp_path / "skills" / "tea" / "examples" / "inner")
    write(tmp_path / "skills" / "kitchen" / "coffee")
    write(tmp_path / "skills" / ".git" / "hidden")
    (tmp_path / "skills" / "notes.md").write_text("no skill")
    book = look(place(tmp_path))
    assert [(each.name, each.place, each.folder) for each in book.skills] == [
        ("coffee", "skills/kitchen/coffee/SKILL.md", ""),
        ("tea", "skills/tea/SKILL.md", "skills/tea"),
    ]
    assert not book.broken


def test_a_folder_that_is_not_there_has_no_skills(tmp_path: Path) -> None:
    """Most agents have none."""
    assert look(place(tmp_path)) == SkillBook([], [])


def test_the_later_one_of_a_name_wins_and_its_end_brings_the_earlier_back(tmp_path: Path) -> None:
    """An override is taken away as easily as it was put there."""
    write(tmp_path / "skills" / "tea", "from the workspace")
    over = write(tmp_path / "team" / "any", "---\nname: tea\n---\nfrom the team")
    folders = SkillFolders([place(tmp_path), SkillPlace(tmp_path / "team", tmp_path / "team", "team")])
    assert [each.body for each in folders.read(folders.look()).skills] == ["from the team"]
    over.unlink()
    assert [each.body for each in folders.read(folders.look()).skills] == ["from the workspace"]


def test_each_broken_skill_is_skipped_with_its_reason_and_the_others_work(tmp_path: Path) -> None:
    """One bad file must not take the rest away."""
    skills = tmp_path / "skills"
    write(skills / "good")
    write(skills / "huge", b"x" * (LONGEST_FILE + 1))
    write(skills / "binary", b"\x7fELF\0")
    write(skills / "latin", "caf\u00e9".encode("latin-1"))
    write(skills / "open", "---\nname: x\n")
    (skills / "folder" / "SKILL.md").mkdir(parents=True)
    (skills / "pipe").mkdir()
    os.mkfifo(skills / "pipe" / "SKILL.md")
    (skills / "SKILL.md").write_text("lost")
    write(skills.joinpath(*"abcdefghij"), "deep")
    book = look(place(tmp_path))
    assert [each.name for each in book.skills] == ["good"]
    assert reasons(book) == {
        "skills/huge/SKILL.md": "it has more than 100000 bytes",
        "skills/binary/SKILL.md": "it is a binary file",
        "skills/latin/SKILL.md": "it is not UTF-8 (byte 3)",
        "skills/open/SKILL.md": "its front matter has no closing line ---",
        "skills/folder/SKILL.md": "it is not a file",
        "skills/pipe/SKILL.md": "it is not a file",
        "skills/SKILL.md": "a skill lies in a folder of its own",
        f"skills/{'/'.join('abcdefg')}": f"it lies more than {DEEPEST} folders deep",
    }


def test_links_that_lead_out_of_the_workspace_are_refused(tmp_path: Path) -> None:
    """The agent may write in its workspace: it must not pull other files into the prompt that way."""
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    secret = write(outside / "secret", "secret")
    write(workspace / "kept" / "inner", "inside")
    skills = workspace / "skills"
    (skills / "by-file").mkdir(parents=True)
    (skills / "by-file" / "SKILL.md").symlink_to(secret)
    (skills / "by-folder").symlink_to(outside / "secret")
    (skills / "by-parent").symlink_to(outside)
    (skills / "to-nothing").symlink_to(workspace / "nothing")
    (skills / "inside").symlink_to(workspace / "kept" / "inner")
    (skills / "round").symlink_to(skills)
    book = look(place(workspace))
    assert {each.body for each in book.skills} == {"inside"}
    out = "it is a link that leads out of its folder"
    told = {where: why for where, why in reasons(book).items() if "round" not in where}
    assert told == {
        "skills/by-file/SKILL.md": out,
        "skills/by-folder": out,
        "skills/by-parent": out,
        "skills/to-nothing": "it is a link to nothing",
    }


@pytest.mark.parametrize("name", ["link", "../outside"])
def test_a_folder_of_skills_outside_the_workspace_is_refused(tmp_path: Path, name: str) -> None:
    """The workspace is the border; other folders are named in extra_dirs."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    write(tmp_path / "outside" / "tea")
    (workspace / "link").symlink_to(tmp_path / "outside")
    book = look(place(workspace, name))
    assert not book.skills
    assert reasons(book) == {name: "it leads out of its folder"}


def test_more_skills_than_are_taken_are_said_to_be(tmp_path: Path) -> None:
    """Nobody's disk holds the worker up."""
    for number in range(MOST_SKILLS + 2):
        write(tmp_path / "skills" / f"s{number:04}")
    book = look(place(tmp_path))
    assert len(book.skills) == MOST_SKILLS
    assert reasons(book) == {"skills": f"there are more than {MOST_SKILLS} skills; the rest is not looked at"}


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    """Looking every second must be cheap: what was read before is the same object."""
    write(tmp_path / "skills" / "tea")
    coffee = write(tmp_path / "skills" / "coffee")
    folders = SkillFolders([place(tmp_path)])
    before = folders.read(folders.look())
    coffee.write_text("new body")
    after = folders.read(folders.look())
    assert after.find("tea") is before.find("tea")
    assert [each.body for each in after.skills] == ["new body", "body"]


class HandClock(SystemClock):
    """Sleeps on word: each ``sleep`` is noted, does what the test has planned for it, and is over at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.plan: dict[int, tuple[Path, str]] = {}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if (planned := self.plan.get(len(self.slept))) is not None:
            planned[0].write_text(planned[1])
        await asyncio.sleep(0)


async def test_a_change_is_taken_in_once_it_has_settled(tmp_path: Path) -> None:
    """An editor that writes in two goes is not caught in the middle: no half skill is ever in use."""
    file = write(tmp_path / "skills" / "tea", "old")
    clock = HandClock()
    shelf = SkillShelf(SkillFolders([place(tmp_path)]), clock)
    await shelf.look()
    seen: set[str] = set()
    clock.plan = {2: (file, "half of"), 3: (file, "half of it, and the rest")}
    watching = asyncio.create_task(shelf.watch())
    while "half of it, and the rest" not in seen:
        await asyncio.sleep(0)
        seen |= {each.body for each in shelf.book.skills}
    watching.cancel()
    assert seen == {"old", "half of it, and the rest"}
    assert clock.slept[:4] == [LOOK_EVERY, LOOK_EVERY, 0.3, 0.3]


async def test_a_skill_that_came_goes_and_is_told_of_once(tmp_path: Path) -> None:
    """Added, broken, mended, removed: the book follows, and the log says each change one time."""
    shelf = SkillShelf(SkillFolders([place(tmp_path)]), SystemClock())
    assert not (await shelf.look()).skills
    file = write(tmp_path / "skills" / "tea")
    assert (await shelf.look()).find("tea") is not None
    file.write_bytes(b"\0")
    assert [broken.reason for broken in (await shelf.look()).broken] == ["it is a binary file"]
    assert shelf.book is await shelf.look()
    file.write_text("mended")
    assert (await shelf.look()).skills[0].body == "mended"
    file.unlink()
    assert await shelf.look() == SkillBook([], [])
