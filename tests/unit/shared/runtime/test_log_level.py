"""How much is logged: by the file, and for one start by a variable."""

from pathlib import Path

import pytest

from shared.errors import ConfigError
from shared.runtime.settings import load_configuration


def test_the_level_of_the_file_holds_unless_the_variable_says_otherwise(tmp_path: Path) -> None:
    """Whoever looks for a fault turns the log up without touching a file."""
    config = tmp_path / "lucyd.toml"
    config.write_text('[logging]\nlevel = "warning"\n', encoding="utf-8")
    environ = {"HOME": str(tmp_path)}
    plain = load_configuration(config, environ, find_ollama=lambda: None)
    turned_up = load_configuration(config, {**environ, "LUCYD_LOG_LEVEL": "DEBUG"}, find_ollama=lambda: None)
    assert (plain.logging.level, turned_up.logging.level) == ("warning", "debug")


def test_a_level_that_does_not_exist_stops_the_start(tmp_path: Path) -> None:
    """A typing slip must not silence the log."""
    with pytest.raises(ConfigError, match="LUCYD_LOG_LEVEL must be one of"):
        load_configuration(None, {"HOME": str(tmp_path), "LUCYD_LOG_LEVEL": "loud"}, find_ollama=lambda: None)
