"""What a worker makes of its configuration."""

from datetime import timedelta
from pathlib import Path

from services.agent_worker.rules.recall import RecallManner
from services.agent_worker.settings import Settings
from shared.domain.person import People
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


def test_recall_and_the_owner_are_as_the_operator_says(tmp_path: Path) -> None:
    """One allowed Telegram id is the owner's; and what is kept of memory in a small window is the operator's choice."""
    config = tmp_path / "lucyd.toml"
    config.write_text(
        "[telegram]\nallow_from = [55]\n[memory]\nsearch_top_k = 7\n[memory.recall]\nmax_dynamic_tokens = 900\n"
        "max_facts_in_context = 5\nmax_episodes_at_start = 2\n[memory.recall.personality]\npriority_vector = 1\n"
        'priority_episodes = 2\npriority_facts = 3\npriority_commitments = 4\nfact_format = "compact"\n'
        'show_emotional_tone = false\nepisode_section_header = "Before"\n'
    )
    settings = Settings.of(load_configuration(config, {"HOME": str(tmp_path)}, find_ollama=lambda: None))
    assert settings.people == People(frozenset({55}))
    assert settings.search_top_k == 7
    assert settings.recall == RecallManner(900, 5, 2, True, False, "Before", 3, 2, 1, 4)
