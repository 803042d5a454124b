"""What a worker makes of its configuration."""

from datetime import timedelta
from pathlib import Path

from services.agent_worker.settings import Settings
from shared.runtime.settings import load_configuration


def test_no_goodbye_is_longer_than_a_process_has(tmp_path: Path) -> None:
    """Whoever is ended in the middle of it has handed nothing back, and each of its runs counts an attempt."""
    config = tmp_path / "lucyd.toml"
    config.write_text("[worker]\ndrain_seconds = 60\n")
    read = load_configuration(config, {"HOME": str(tmp_path)}, find_ollama=lambda: None)
    assert Settings.of(read).drain == timedelta(seconds=20)


def test_surplus_workers_stand_back_unless_told_otherwise(tmp_path: Path) -> None:
    """Whoever knows better about the machine can turn it off."""
    config = tmp_path / "lucyd.toml"
    for text, stands_back in (("", True), ("[worker]\nstand_back = false\n", False)):
        config.write_text(text)
        read = load_configuration(config, {"HOME": str(tmp_path)}, find_ollama=lambda: None)
        assert Settings.of(read).stand_back is stands_back
