"""The written house says what is there: links, files, targets, words, keys, routes, events, tools."""

import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest

from deploy.local.launch import SERVICES
from services.agent_worker.ports import Tool
from shared.messages import routes
from shared.messages.run_events import EventType
from tests.house.tool_page import PAGE, every_tool, with_tables
from tests.told_statuses import gateway_operations

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
HOUSE = r"(?:shared|services|deploy|cli|docs|tests|bench|providers\.d|plugins\.d|workspace\.example)"
DESIGN_WORDS = (
    "person", "principal", "conversation", "session", "run", "attempt", "turn", "step", "effect", "command", "event",
    "delivery", "job", "claim", "epoch", "owner", "fence", "beat", "sweep", "wake-up", "in doubt", "drain",
)  # fmt: skip


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose_of(page: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def fences_of(page: str) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)


def section_of(page: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its kind."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no section {heading!r}"
    return found[1]


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", NAMES)
def test_every_link_leads_somewhere(page: str) -> None:
    """A dead link is where a reader gives up."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", NAMES)
def test_every_file_that_is_named_exists(page: str) -> None:
    """Pages send people to files; a file that was moved must take its name along."""
    named = re.findall(rf"`({HOUSE}/[^`\s]*)`", text_of(page))
    gone = [name for name in named if not re.search(r"[<>{}*]|NNNN", name) and not (ROOT / name).exists()]
    assert gone == []


@pytest.mark.parametrize("page", NAMES)
def test_every_make_target_that_is_named_exists(page: str) -> None:
    """Commands in pages are typed as they stand."""
    targets = set(re.findall(r"^([a-z0-9-]+):", text_of("Makefile"), re.MULTILINE))
    named = re.findall(r"`make ([a-z0-9-]+)", prose_of(page))
    named += re.findall(r"^(?:.*&& )?(?:[A-Z_]+=\S+ )?make ([a-z0-9-]+)", "\n".join(fences_of(page)), re.MULTILINE)
    assert set(named) - targets == set()


def test_the_readme_shows_how_the_tests_are_run() -> None:
    """Whoever checks the repository, person or machine, finds the command on its first page."""
    commands = "\n".join(fences_of("README.md"))
    assert re.search(r"^make test\b", commands, re.MULTILINE)
    assert re.search(r"^make check\b", commands, re.MULTILINE)
    assert re.search(r"^make run\b", commands, re.MULTILINE)


def test_the_glossary_has_every_word_once() -> None:
    """Two meanings of one word are the beginning of two systems."""
    words = re.findall(r"^\| `?([^|`]+?)`? \| ", text_of("docs/glossary.md"), re.MULTILINE)
    words = [word for word in words if word != "word"]
    assert [word for word in DESIGN_WORDS if word not in words] == []
    # Effect classes stand there as code; all else is a word of its own.
    assert sorted({word for word in words if words.count(word) > 1}) == []


def redis_keys() -> Iterator[str]:
    """Every key of ``routes.py``, its parts that change by their names."""
    for name, value in vars(routes).items():
        if name.endswith("_QUEUE"):
            yield f"rq:queue:{value}"
        elif isinstance(value, str) and value.startswith("lucyd:") and not value.endswith(":"):
            yield value
        elif inspect.isfunction(value) and value.__module__ == routes.__name__:
            yield from keys_of(value)


def keys_of(function: Any) -> Iterator[str]:
    parameters = inspect.signature(function).parameters
    some = UUID(int=7)
    given = {name: some if each.annotation is UUID else f"<{name}>" for name, each in parameters.items()}
    for service in ("agent_worker", "<name>") if "service" in given else ("",):
        arguments = {**given, "service": service} if service else given
        yield function(**arguments).replace(str(some), "<id>")


def test_the_documented_redis_keys_are_those_of_the_code() -> None:
    """Operators and clients rely on these names."""
    written = re.findall(r"^\| `([^`]+)` \|", section_of("docs/operations.md", "Redis keys"), re.MULTILINE)
    assert sorted(written) == sorted(redis_keys())


def test_the_documented_routes_are_those_of_the_gateway() -> None:
    """A route that is not written down is a secret; one that is only written down is a lie."""
    rows = re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \|", section_of("docs/http.md", "Routes"), re.MULTILINE)
    assert set(rows) == {(operation.method, operation.path) for operation in gateway_operations()}
    titles = re.findall(r"^## (.*(?:GET|POST|DELETE|PUT) .*)$", text_of("docs/http.md"), re.MULTILINE)
    described = {pair for title in titles for pair in re.findall(r"([A-Z]+) (/[^\s]+)", title)}
    assert described == set(rows)


def test_the_documented_events_are_those_of_the_code() -> None:
    """Clients are written against this table."""
    table = section_of("docs/http.md", "GET /api/v1/runs/{id}/events")
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(get_args(EventType))


def test_every_function_of_the_database_is_explained() -> None:
    """The most important code of all stands in migrations, where few look."""
    folder = ROOT / "shared" / "adapters" / "postgres" / "migrations"
    sql = "\n".join(file.read_text(encoding="utf-8") for file in folder.glob("*.sql"))
    functions = set(re.findall(r"create (?:or replace )?function (\w+)", sql))
    assert functions - set(re.findall(r"\blucyd_\w+", text_of("docs/architecture.md"))) == set()


def test_the_architecture_names_every_service() -> None:
    """The table of services is the first thing that people look up."""
    written = re.findall(r"^\| `(\w+)` \|", section_of("docs/architecture.md", "The services"), re.MULTILINE)
    assert set(written) == set(SERVICES)


def test_no_tool_is_left_out_of_these_tests() -> None:
    """A new file in the tools' folder is found here before it is forgotten in the pages."""
    folder = ROOT / "services" / "agent_worker" / "edge" / "tools"
    files = {file.stem for file in folder.glob("*.py") if re.search(r"^class \w+Tool:", file.read_text(), re.MULTILINE)}
    assert {tool.spec.name for tool in every_tool()} == files
    written = re.findall(r"^## `(\w+)`$", text_of("docs/tools.md"), re.MULTILINE)
    assert sorted(written) == sorted(files)


@pytest.mark.parametrize("tool", every_tool(), ids=lambda tool: tool.spec.name)
def test_a_tool_that_proves_itself_is_told_so(tool: Tool) -> None:
    """People decide by it what may run without being watched."""
    assert ("Proves itself" in section_of("docs/tools.md", f"`{tool.spec.name}`")) == hasattr(tool, "prove")


def test_what_the_page_of_tools_says_of_them_is_written_from_their_schemas() -> None:
    """Parameters, defaults and effect classes are what people decide by. ``make docs`` writes them."""
    assert PAGE.read_text(encoding="utf-8") == with_tables(PAGE.read_text(encoding="utf-8"), every_tool())


def test_each_decision_stands_in_the_list_and_has_its_three_parts() -> None:
    """Context, decision, price paid: a decision without a price was not one."""
    files = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\) \| (.+) \|", text_of("docs/adr/README.md"))
    assert [name for name, _ in listed] == [file.name for file in files]
    for file, (_, title) in zip(files, listed, strict=True):
        headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == [f"{file.name[:4]} {title}", "Context", "Decision", "Price paid"], file.name


def test_the_changelog_has_the_version_that_is_shipped() -> None:
    """Users look up what they have."""
    version = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
    assert f"## [{version}]" in text_of("CHANGELOG.md")
    assert "## [Unreleased]" in text_of("CHANGELOG.md")


@pytest.mark.parametrize("page", NAMES)
def test_toml_in_pages_is_toml(page: str) -> None:
    """Examples are copied."""
    for block in re.findall(r"^```toml\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL):
        tomllib.loads(block)
