"""Every service has the same rooms, so that whoever knows one knows all."""

import ast
from pathlib import Path

import pytest

from deploy.local.launch import SERVICES

ROOT = Path(__file__).resolve().parents[2]
CODE = ("cli", "services", "shared", "deploy", "bench")
ROOMS = ("edge", "actions", "rules")
DOORS = ("__main__.py", "wiring.py", "settings.py")
ATTICS = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "stuff", "base"}


def test_the_launcher_starts_every_service_that_there_is() -> None:
    """A service that nobody starts, or one that is started and missing, shows only on somebody's machine."""
    there = {path.name for path in (ROOT / "services").iterdir() if (path / "__init__.py").exists()}
    assert there == set(SERVICES)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_all_its_rooms(service: str) -> None:
    """The README says where to look before anybody has seen the service."""
    home = ROOT / "services" / service
    missing = [name for name in DOORS if not (home / name).is_file()]
    missing += [room for room in ROOMS if not (home / room / "__init__.py").is_file()]
    assert missing == []


@pytest.mark.parametrize("service", SERVICES)
def test_the_door_of_a_service_is_three_statements(service: str) -> None:
    """What starts a process is the same everywhere: import, import, run."""
    tree = ast.parse((ROOT / "services" / service / "__main__.py").read_text(encoding="utf-8"))
    docstring, *statements = tree.body
    assert isinstance(docstring, ast.Expr)
    assert [ast.unparse(statement) for statement in statements] == [
        f"from services.{service}.wiring import open_service",
        "from shared.runtime.service import run",
        f"if __name__ == '__main__':\n    run('{service}', open_service)",
    ]


def test_no_module_is_an_attic() -> None:
    """A name that fits anything collects everything."""
    modules = [path for part in CODE for path in (ROOT / part).rglob("*.py")]
    named = {path.relative_to(ROOT) for path in modules if {path.stem, path.parent.name} & ATTICS}
    assert named == set()


def test_what_runs_alone_stands_where_the_makefile_looks_for_it() -> None:
    """Elsewhere neither of its two runs would take it."""
    marked = {file.parent.name for file in (ROOT / "tests").rglob("test_*.py") if "mark.alone\n" in file.read_text()}
    assert marked == {"e2e", "chaos"}
    assert "pytest tests/e2e tests/chaos -m alone" in (ROOT / "Makefile").read_text()
