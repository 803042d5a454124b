"""Every mistake is told at once, in words that say what to write instead."""

from pathlib import Path

import pytest

from shared.errors import ConfigError
from shared.runtime.settings import load_configuration


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def errors_of(text: str, tmp_path: Path, providers: dict[str, str] | None = None) -> tuple[str, ...]:
    config = tmp_path / "lucyd.toml"
    config.write_text(text, encoding="utf-8")
    (tmp_path / "providers.d").mkdir(exist_ok=True)
    for name, content in (providers or {}).items():
        (tmp_path / "providers.d" / f"{name}.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_configuration(config, {"HOME": str(tmp_path)}, find_ollama=lambda: None)
    return caught.value.errors


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[http]\nport = "abc"', 'http.port must be a whole number from 1 to 65535, not "abc"'),
        ("[http]\nport = 70000", "http.port must be a whole number from 1 to 65535, not 70000"),
        ("[http]\nport = true", "http.port must be a whole number from 1 to 65535, not true"),
        ("[http]\nport = 81.5", "http.port must be a whole number from 1 to 65535, not 81.5"),
        ("[http]\nenabled = 1", "http.enabled must be true or false, not 1"),
        ("http = 5", "http must be a section ([http]), not 5"),
        (
            '[http]\ncallback_url = "nowhere"',
            "http.callback_url must be text in quotes that is empty or begins with http:// or https:// and names a "
            'host, and a port up to 65535 if any, not "nowhere"',
        ),
        (
            '[http]\ncallback_url = "http://127.0.0.1:99999/"',
            "http.callback_url must be text in quotes that is empty or begins with http:// or https:// and names a "
            'host, and a port up to 65535 if any, not "http://127.0.0.1:99999/"',
        ),
        (
            '[http]\ncallback_url = "https://exa mple.org/"',
            "http.callback_url must be text in quotes that is empty or begins with http:// or https:// and names a "
            'host, and a port up to 65535 if any, not "https://exa mple.org/"',
        ),
        ('[tools]\nask_first = ["exce"]', "tools.ask_first names 'exce', which is no tool"),
        ("[run]\ndeadline_seconds = 0", "run.deadline_seconds must be more than 0: every message would fail at once"),
        (
            '[http]\ncallback_url = "http://127.0.0.1:9/"\ncallback_timeout = 0',
            "http.callback_timeout must be more than 0 seconds where http.callback_url is set",
        ),
        ('[agent]\nname = " "', 'agent.name must be text in quotes that is not empty, not " "'),
        ("[agent]\nworkspace = 1", "agent.workspace must be a path in quotes, not 1"),
        (
            "[agent.context]\nstable = 'SOUL.md'",
            'agent.context.stable must be a list of texts in quotes, not "SOUL.md"',
        ),
        (
            "[behavior]\nagent_timeout_seconds = -1",
            "behavior.agent_timeout_seconds must be a number, 0 or more, not -1",
        ),
        (
            "[behavior]\nagent_timeout_seconds = nan",
            "behavior.agent_timeout_seconds must be a number, 0 or more, not NaN",
        ),
        (
            "[behavior]\nmax_cost_per_message = true",
            "behavior.max_cost_per_message must be a number, 0 or more, not true",
        ),
        ("[behavior]\napi_retries = -2", "behavior.api_retries must be a whole number, 0 or more, not -2"),
        ("[behavior]\nsilent_tokens = [1]", "behavior.silent_tokens must be a list of texts in quotes, not this list"),
        (
            "[behavior.compaction]\nthreshold_tokens = 0",
            "behavior.compaction.threshold_tokens must be a whole number, 1 or more, not 0",
        ),
        (
            "[behavior.compaction]\nkeep_recent_pct = 1.5",
            "behavior.compaction.keep_recent_pct must be a number from 0 to 1, not 1.5",
        ),
        (
            "[vision]\njpeg_quality_steps = [40, 60]",
            "vision.jpeg_quality_steps must be a list of whole numbers, each from 1 to 100, at least one, each smaller "
            "than the one before, not this list",
        ),
        (
            '[user]\ntimezone = "Mars/Olympus"',
            'user.timezone must be text in quotes that names a time zone, such as "Europe/Vienna" or "UTC", '
            'not "Mars/Olympus"',
        ),
        ('[logging]\nformat = "xml"', 'logging.format must be one of "", "text", "json", not "xml"'),
        ("[routing]\nsystem = 1", "routing.system must be text in quotes, not 1"),
        ("[telegram.contacts]\nAnna = '1'", 'telegram.contacts.Anna must be a whole number, not "1"'),
        ("[channel]\ndebounce_ms = 'x'", 'channel.debounce_ms must be a whole number, 0 or more, not "x"'),
        ("[channel.telegram]\nallow_from = 1", "channel.telegram.allow_from must be a list of whole numbers, not 1"),
        ("models = 1", "models must be a section with one model each ([models.primary]), not 1"),
        ("[models]\nprimary = 1", "models.primary must be a section ([models.primary]), not 1"),
        (
            '[memory.recall.personality]\nsynthesis_prompt_factual = "x"',
            "memory.recall.personality.synthesis_prompt_factual must be text in quotes that contains {recall_text}, "
            'not "x"',
        ),
        (
            "[memory.indexer]\nchunk_size_chars = 100",
            "memory.indexer.chunk_overlap_chars must be smaller than chunk_size_chars (320 and 100)",
        ),
        ("[database]\npool_min = 20", "database.pool_min must not be larger than pool_max (20 and 10)"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_belongs_there(text: str, sentence: str, tmp_path: Path) -> None:
    """The person who reads this has one terminal and little patience."""
    assert errors_of(text, tmp_path) == (f"lucyd.toml: {sentence}",)


def test_all_mistakes_of_all_files_are_told_together(tmp_path: Path) -> None:
    """Nobody wants to start five times to find five mistakes."""
    text = '[http]\nport = 0\nrate_limit = "many"\n[providers]\nload = ["a", "b"]\n[behavior]\napi_retries = false\n'
    found = errors_of(
        text,
        tmp_path,
        {"a": 'type = "gemini"\n[models.primary]\nmodel = "x"\n', "b": "[models.primary\n"},
    )
    assert len(found) == 5
    assert found[:3] == (
        "lucyd.toml: http.port must be a whole number from 1 to 65535, not 0",
        'lucyd.toml: http.rate_limit must be a whole number, 0 or more, not "many"',
        "lucyd.toml: behavior.api_retries must be a whole number, 0 or more, not false",
    )
    assert any(each.startswith("providers.d/b.toml: this is not valid TOML") for each in found)
    assert (
        'providers.d/a.toml: type must be one of "anthropic", "openai", "mistral", "offline", '
        'or the name of a loaded provider file, not "gemini"' in found
    )


def test_a_file_that_is_no_toml_says_where(tmp_path: Path) -> None:
    """Line and column are what is needed to mend it."""
    (error,) = errors_of("[agent]\nname = Lucyd\n", tmp_path)
    assert error.startswith("lucyd.toml: this is not valid TOML: ")
    assert "line 2" in error


def test_a_file_in_another_encoding_is_told_as_such(tmp_path: Path) -> None:
    """Old editors still write Latin-1."""
    config = tmp_path / "lucyd.toml"
    config.write_bytes('[agent]\nname = "Jürgen"'.encode("latin-1"))
    with pytest.raises(ConfigError, match="the file is not UTF-8 text"):
        load_configuration(config, {}, find_ollama=lambda: None)
    config.write_bytes(b"\xef\xbb\xbf[agent]\nname = 'Marked'")
    assert load_configuration(config, {}, find_ollama=lambda: None).agent.name == "Marked"


@pytest.mark.parametrize(
    "text",
    [
        '[http]\ntoken_env = "hidden/secret+value="',
        '[tools.web_search]\napi_key_env = "hidden secret"',
        "[http]\ntoken_env = 123456789",
        '[memory]\nembedding_base_url = "ftp://user:hidden@host"',
    ],
)
def test_what_may_be_a_secret_is_never_shown(text: str, tmp_path: Path) -> None:
    """Errors end in logs and in other people's chats."""
    (error,) = errors_of(text, tmp_path)
    assert "hidden" not in error
    assert "123456789" not in error
    assert error.endswith("not what stands there")


def test_a_secret_in_place_of_its_variable_is_refused_with_the_right_place(tmp_path: Path) -> None:
    """The commonest slip of all, and the file may be under version control."""
    (error,) = errors_of('[http]\ntoken_env = "my-secret-token"', tmp_path)
    assert "names an environment variable (the secret itself belongs into .env)" in error


def test_a_model_needs_its_id_and_its_provider(tmp_path: Path) -> None:
    """Without these nothing can be called."""
    assert errors_of("[models.primary]\nmax_tokens = 5\n", tmp_path) == (
        'lucyd.toml: models.primary has no provider; write type = one of "anthropic", "openai", "mistral", "offline"',
        'lucyd.toml: models.primary.model is missing; write the model\'s id, such as model = "..."',
    )


def test_a_mistake_in_a_providers_head_is_told_once_where_it_stands(tmp_path: Path) -> None:
    """Three models inherit it; the operator wrote it once."""
    provider = 'type = "offline"\nmax_tokens = "many"\n[models.primary]\nmodel = "a"\n[models.subagent]\nmodel = "b"\n'
    assert errors_of('[providers]\nload = ["a"]', tmp_path, {"a": provider}) == (
        'providers.d/a.toml: max_tokens must be a whole number, 1 or more, not "many"',
    )


@pytest.mark.parametrize("rates", ["[1.0]", "[1, 2, 3, 4, 5]"])
def test_rates_are_two_to_four_numbers(rates: str, tmp_path: Path) -> None:
    """With one number nobody knows what it means."""
    (error,) = errors_of(f'[models.primary]\ntype = "offline"\nmodel = "x"\ncost_per_mtok = {rates}', tmp_path)
    assert error.startswith("lucyd.toml: models.primary.cost_per_mtok must be 2 to 4 numbers")


def test_loaded_models_without_primary_are_a_mistake(tmp_path: Path) -> None:
    """Somebody would have to answer, and it should be who the operator meant."""
    (error,) = errors_of('[models.helper]\ntype = "offline"\nmodel = "x"', tmp_path)
    assert "the loaded models (helper) lack one named primary" in error
