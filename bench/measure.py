"""Figures of the house: how long files and functions are, what is hidden in them. They are a mirror and no limit.

Counted as for the houses it was compared with: files under three lines, tests and migrations are left out; a function's
body is its lines without the docstring.
"""

import ast
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[1]
CODE = ("cli", "services", "shared", "deploy")
SHORTEST_FILE = 3

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOCK = re.compile(r"\b(?:Mock|MagicMock|AsyncMock|monkeypatch|mocker)\b|\bpatch\(")


@dataclass(frozen=True, slots=True)
class Figures:
    """One part of the house. Lengths are lines; ``local_imports`` counts imports of our own code inside functions."""

    part: str
    files: Sequence[int]
    bodies: Sequence[int]
    local_imports: int
    broad_excepts: int

    def row(self) -> str:
        """The part as one line of the table."""
        files, bodies = sorted(self.files), sorted(self.bodies)
        excepts = 1000 * self.broad_excepts / max(1, sum(files))
        return (
            f"{self.part:<10}{len(files):>6}{sum(files):>8}   "
            f"{_median(files):>4} / {_high(files):>3} / {_most(files):>3}   "
            f"{_median(bodies):>4} / {_high(bodies):>3} / {_most(bodies):>3}   "
            f"{self.local_imports:>5}   {self.broad_excepts:>3} ({excepts:.1f})"
        )


def measure(part: str, paths: Sequence[Path]) -> Figures:
    """Read the files and count."""
    lengths, bodies, excepts, hidden = [], [], 0, set()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        lengths.append(len(text.splitlines()))
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTION):
                bodies.append(_body_length(node))
                # As places, for a function inside another one is walked twice.
                hidden |= {(path, inner.lineno) for inner in ast.walk(node) if _is_own_import(inner)}
            excepts += isinstance(node, ast.ExceptHandler) and _is_broad(node)
    return Figures(part, lengths, bodies, len(hidden), excepts)


def sources(part: str) -> list[Path]:
    """The files of a part that count."""
    found = sorted((ROOT / part).rglob("*.py"))
    return [path for path in found if len(path.read_text(encoding="utf-8").splitlines()) >= SHORTEST_FILE]


def main() -> None:
    """Print the table."""
    head = f"{'':<10}{'files':>6}{'lines':>8}   {'lines of a file':<16}   {'of a function':<16}   {'local':<5}   broad"
    second = f"{'':<24}   {'med / p90 / max':<16}   {'med / p90 / max':<16}   {'imp.':<5}   excepts (per 1000 lines)"
    parts = [measure(part, sources(part)) for part in CODE]
    whole = measure("all", [path for part in CODE for path in sources(part)])
    lines = [head, second, *(figures.row() for figures in parts), whole.row(), _tests()]
    sys.stdout.write("\n".join(lines) + "\n")


def _tests() -> str:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    tests = sum(len(re.findall(r"^\s*(?:async )?def test_", text, re.MULTILINE)) for text in texts)
    mocks = sum(len(_MOCK.findall(text)) for text in texts)
    return f"{'tests':<10}{len(texts):>6} files, {tests} test functions, {mocks} words of mocking"


def _body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    start = function.body[1] if is_docstring else first
    return (function.end_lineno or 0) - start.lineno + 1


def _is_own_import(node: ast.AST) -> TypeGuard[ast.Import | ast.ImportFrom]:
    return any(name.split(".")[0] in CODE for name in _imported(node))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom):
        yield node.module or ""
    elif isinstance(node, ast.Import):
        yield from (name.name for name in node.names)


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}


def _median(numbers: Sequence[int]) -> int:
    return round(statistics.median(numbers)) if numbers else 0


def _high(numbers: Sequence[int]) -> int:
    return numbers[min(len(numbers) - 1, int(len(numbers) * 0.9))] if numbers else 0


def _most(numbers: Sequence[int]) -> int:
    return numbers[-1] if numbers else 0


if __name__ == "__main__":
    main()
