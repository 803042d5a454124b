"""Migrations go forward, one after the other."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "adapters" / "postgres" / "migrations"
FILES = sorted(FOLDER.iterdir())


def test_names_count_up_without_a_gap() -> None:
    """They are applied in the order of their names; two with one number would have no order."""
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", file.name) for file in FILES), [file.name for file in FILES]
    assert [int(file.name[:4]) for file in FILES] == list(range(1, len(FILES) + 1))


def test_each_says_what_it_does() -> None:
    """An empty one is a mistake, and one without a word is a riddle in a year."""
    for file in FILES:
        first, *rest = file.read_text(encoding="utf-8").strip().splitlines()
        assert first.startswith("-- "), f"{file.name} begins without a comment"
        assert any(line.strip() and not line.startswith("--") for line in rest), f"{file.name} does nothing"


def test_none_goes_back_or_commits_by_itself() -> None:
    """Each file is one transaction; a commit inside would leave half of it behind when the rest fails."""
    for file in FILES:
        text = re.sub(r"--[^\n]*", "", file.read_text(encoding="utf-8")).lower()
        text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
        assert not re.search(r"^\s*(?:begin|commit|rollback)\s*;", text, re.MULTILINE), file.name
        assert "concurrently" not in text, f"{file.name}: that can't run in a transaction"
