"""`lucyd skills`: the files as a worker reads them, without one."""

import subprocess
from pathlib import Path

import pytest

from tests.command_line import lucyd

GOLDEN = (
    ("git-flow", "Advanced git process guidance", "git, vcs"),
    ("docker-ops", "Container lifecycle help", "docker"),
    ("node-setup", "Install packages and run node", "node"),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three skills in the workspace, and one that is broken."""
    for name, description, tags in GOLDEN:
        write(tmp_path / "workspace" / "skills" / name, f"---\ndescription: {description}\ntags: [{tags}]\n---\nbody")
    configure(tmp_path, 'always_on = ["docker-ops", "gone"]')
    return tmp_path


def configure(home: Path, skills: str) -> None:
    (home / "lucyd.toml").write_text(f'[agent]\nworkspace = "workspace"\n[agent.skills]\n{skills}\n')


def write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


def skills(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    done = lucyd(home, "skills", *words, "-c", "lucyd.toml")
    assert (done.returncode, done.stderr) == (0, "")
    return done


def cells(text: str, count: int) -> list[list[str]]:
    return [line.split(maxsplit=count) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("advanced git rebase", [["git-flow", "6.3076", "yes"]]),
        ("run node tests", [["node-setup", "8.0405", "yes"]]),
        ("a container", [["docker-ops", "0.9242", "always"]]),
    ],
)
def test_a_preview_shows_the_golden_scores(home: Path, text: str, expected: list[list[str]]) -> None:
    """The same that every worker computes."""
    assert cells(skills(home, "match", text).stdout, 2)[2:] == expected


def test_where_nothing_fits_it_is_said(home: Path) -> None:
    """And where there is nothing at all."""
    assert skills(home, "match", "write a poem").stdout.startswith("No skill fits this message")
    configure(home, 'dir = "nowhere"')
    assert skills(home, "match", "write a poem").stdout.startswith("There are no skills")
    assert skills(home, "list").stdout.startswith("There are no skills")


def test_the_list_names_all_and_says_what_is_skipped_and_why(home: Path) -> None:
    """Control characters of a file's text don't reach the terminal."""
    write(home / "workspace" / "skills" / "broken", "---\nname: x\n")
    write(home / "team" / "x", "---\nname: git-flow\nallowed-tools: Read exec\n---\n\x1b[31mThe team's.")
    configure(home, 'always_on = ["docker-ops", "gone"]\nextra_dirs = ["team"]')
    told = skills(home, "list").stdout
    lines = cells(told, 2)
    assert [line[:2] for line in lines[2:5]] == [["docker-ops", "always"], ["git-flow", "if"], ["node-setup", "if"]]
    assert f"Read, exec  {home / 'team'}/x/SKILL.md" in told
    assert "skipped  skills/broken/SKILL.md: its front matter has no closing line ---" in told
    assert "missing  gone: named in always_on, and no skill" in told
    assert "\x1b" not in told
