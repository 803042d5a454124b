"""The example and the reference say what the code does."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ConfigError
from shared.runtime.configuration.models import ModelTable
from shared.runtime.configuration.sections.mcp import McpServerTable
from shared.runtime.configuration.sections.operation import ModelsRouting
from shared.runtime.configuration.sections.whole import Sections
from shared.runtime.settings import load_configuration

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "lucyd.toml.example"
REFERENCE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
DEPENDS = {  # defaults that are worked out, or told in a sentence
    "agent.workspace",
    "agent.context.tiers",
    "mcp.servers",
    "providers.dir",
    "documents.text_extensions",
    "run.wait_seconds",
    "paths.data_dir",
    "paths.state_dir",
    "tools.enabled",
    "tools.filesystem.allowed_paths",
}


def leaves(section: object, at: str = "") -> Iterator[tuple[str, Any]]:
    assert is_dataclass(section)
    for each in fields(section):
        path, value = f"{at}.{each.name}" if at else each.name, getattr(section, each.name)
        if is_dataclass(value):
            yield from leaves(value, path)
        elif path != "routing":
            yield path, value


def as_toml(value: object) -> str:
    if value is None:
        return '""'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(as_toml(each) for each in value) + "]"
    return str(value)


def documented() -> dict[str, str]:
    """Each key of the reference with its default as printed there."""
    found, section = {}, ""
    for line in REFERENCE.splitlines():
        if heading := re.match(r"#+ `\[(.+)\]`", line):
            section = heading[1]
        elif line.startswith("## "):
            section = ""
        elif row := re.match(r"\| `([\w.]+)` \| (.+?) \| .", line):
            found[f"{section}.{row[1]}" if section else row[1]] = row[2]
    return found


def test_every_key_stands_in_the_reference_with_its_default() -> None:
    """A key that is not written down does not exist for anybody else."""
    written = documented()
    models = [*leaves(ModelTable(), "models.<role>"), *leaves(ModelsRouting(), "models.routing")]
    keys = dict([*leaves(Sections()), *models, *leaves(McpServerTable(), "mcp.servers.<name>")])
    del keys["mcp.servers"]  # a section each, and no key of its own
    assert {path for path in keys if path not in written} == set()
    wrong = {
        path: written[path]
        for path, value in keys.items()
        if path not in DEPENDS and written[path] != f"`{as_toml(value)}`"
    }
    assert wrong == {}


def test_every_key_of_the_reference_exists() -> None:
    """What is promised there must be read."""
    keys = {path for path, _ in leaves(Sections())}
    keys |= {path for path, _ in leaves(ModelTable(), "models.<role>")}
    keys |= {path for path, _ in leaves(ModelsRouting(), "models.routing")}
    keys |= {path for path, _ in leaves(McpServerTable(), "mcp.servers.<name>")}
    assert {path for path in documented() if path.islower() and path not in keys} == set()


@pytest.mark.parametrize("value", ["1979-05-27", "[[]]", "{ a = { b = [] } }", "nan", '"\\u0000"'])
def test_no_key_lets_a_wrong_value_through_or_falls_over_it(value: str, tmp_path: Path) -> None:
    """Whatever stands in the file, the operator reads sentences and no traceback."""
    keys = [path for path, _ in leaves(Sections())]
    config = tmp_path / "lucyd.toml"
    config.write_text("".join(f"{path} = {value}\n" for path in keys), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_configuration(config, {"HOME": str(tmp_path)}, find_ollama=lambda: None)
    told = "\n".join(caught.value.errors)
    assert value != "1979-05-27" or [path for path in keys if f"lucyd.toml: {path} must be" not in told] == []


def test_the_example_loads_as_it_is(tmp_path: Path) -> None:
    """Copying it is the first thing people do."""
    config = tmp_path / "lucyd.toml"
    config.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    found = load_configuration(config, {"HOME": str(tmp_path)}, find_ollama=lambda: None)
    assert found.unknown_keys == ()
    assert found.warnings == ()
    assert found.behavior.max_cost_per_message == Decimal("5.0")


def test_every_line_of_the_example_shows_a_key_and_its_default(tmp_path: Path) -> None:
    """Taking away a # must change nothing by surprise."""
    text = re.sub(r"^# (\[?[a-z]\w*(?: = .*|\.\w+\])$)", r"\1", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = text.replace('\nsystem = "subagent"', "").replace("\nAnna = 123456789", "")
    before_inline, _, inline = text.partition("[models.subagent]\n")
    text = before_inline + inline.partition("\n\n")[2]
    assert text.count(" = ") > 120, "the comments were not taken away"
    config = tmp_path / "lucyd.toml"
    config.write_text(text, encoding="utf-8")
    found = load_configuration(config, {"HOME": str(tmp_path)}, find_ollama=lambda: None)
    assert found.unknown_keys == ()
    now, default = (
        dict(leaves(Sections(**{each.name: getattr(found, each.name) for each in fields(Sections)}))),
        dict(leaves(Sections())),
    )
    changed = {path for path in now if path not in DEPENDS and now[path] != default[path]}
    assert changed == {"behavior.max_cost_per_message", "tools.plugins_dir"}


@pytest.mark.parametrize("name", ["anthropic", "openai", "ollama"])
def test_every_shipped_provider_file_has_a_primary_with_four_rates(name: str, tmp_path: Path) -> None:
    """Caps on money are counted with these numbers."""
    config = tmp_path / "lucyd.toml"
    config.write_text(f'[providers]\nload = ["{name}"]', encoding="utf-8")
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    found = load_configuration(config, environ, find_ollama=lambda: None)
    assert (found.warnings, found.unknown_keys) == ((), ())
    assert found.models_origin == "lucyd.toml"
    table = tomllib.loads((ROOT / "providers.d" / f"{name}.toml").read_text(encoding="utf-8"))
    assert all(len(model["cost_per_mtok"]) == 4 for model in table["models"].values())
