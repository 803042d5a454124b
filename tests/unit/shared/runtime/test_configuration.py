"""What the operator decided arrives, from every place it may stand in."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from decimal import Decimal
from pathlib import Path

import pytest

from shared.errors import ConfigError
from shared.runtime.configuration.dotenv import parse_dotenv
from shared.runtime.settings import Configuration, load_configuration

CONFIGS = Path(__file__).resolve().parents[3] / "data" / "configs"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is one of the places that are looked at."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Configuration:
    home = {"HOME": str(Path.cwd().parent / "home")}
    return load_configuration(path, {**home, **(environ or {})}, find_ollama=lambda: None)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_any_file_everything_has_a_default(tmp_path: Path) -> None:
    """The first start needs nothing but the command."""
    found = load()
    assert found.config_file is None
    assert found.agent.name == "Lucyd"
    assert found.data_dir == tmp_path / "home" / ".lucyd"
    assert found.workspace == tmp_path / "home" / ".lucyd" / "workspace"
    assert not found.workspace_given
    assert (found.http.enabled, found.http.host, found.http.port) == (True, "127.0.0.1", 8100)
    assert found.tools.filesystem.allowed_paths == (found.workspace, Path("/tmp"))
    assert found.models["primary"].provider == "offline"
    assert found.database_url is found.redis_url is found.http_token is None


def test_loading_creates_nothing(tmp_path: Path) -> None:
    """Reading a configuration to look at it must not leave folders behind."""
    load()
    assert [each.name for each in tmp_path.iterdir()] == ["here"]
    assert not any((tmp_path / "here").iterdir())


def test_the_file_that_was_named_wins_over_the_variable_and_the_usual_places(tmp_path: Path) -> None:
    """-c, LUCYD_CONFIG, here, data directory: the more explicit, the stronger."""
    data = {"LUCYD_DATA_DIR": str(tmp_path / "data")}
    write(tmp_path / "data" / "lucyd.toml", '[agent]\nname = "Data"')
    assert load(None, data).agent.name == "Data"
    write(tmp_path / "here" / "lucyd.toml", '[agent]\nname = "Here"')
    assert load(None, data).agent.name == "Here"
    by_variable = data | {"LUCYD_CONFIG": str(write(tmp_path / "variable.toml", '[agent]\nname = "Variable"'))}
    assert load(None, by_variable).agent.name == "Variable"
    argument = write(tmp_path / "argument.toml", '[agent]\nname = "Argument"')
    assert load(argument, by_variable).agent.name == "Argument"


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    """A typing error must not start another agent than the one that was meant."""
    with pytest.raises(ConfigError, match=r"--config: there is no file .*absent\.toml"):
        load(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="LUCYD_CONFIG: there is no file"):
        load(None, {"LUCYD_CONFIG": str(tmp_path / "absent.toml")})


def test_dotenv_lines_are_read_by_the_rules_of_the_original() -> None:
    """People bring the file they have."""
    text = (
        "# comment\n\nPLAIN=a b\n export EXPORTED = yes \nSINGLE='x'\nDOUBLE=\"y # z\"\nHASH=pa#ss\n"
        'HALF="open\nNESTED="\'q\'"\nEMPTY=\nnonsense\n=value\nEQUALS=a=b\n'
    )
    assert parse_dotenv(text) == {
        "PLAIN": "a b",
        "EXPORTED": "yes",
        "SINGLE": "x",
        "DOUBLE": "y # z",
        "HASH": "pa#ss",
        "HALF": '"open',
        "NESTED": "'q'",
        "EMPTY": "",
        "EQUALS": "a=b",
    }


def test_dotenv_beside_the_file_never_overrides_the_environment(tmp_path: Path) -> None:
    """What the service manager set is meant."""
    config = write(tmp_path / "etc" / "lucyd.toml", "")
    write(tmp_path / "etc" / ".env", "LUCYD_HTTP_TOKEN=from-file\nLUCYD_REDIS_URL=redis://file\n")
    write(tmp_path / "here" / ".env", "LUCYD_DATABASE_URL=postgresql://elsewhere\n")
    found = load(config, {"LUCYD_HTTP_TOKEN": "from-environment"})
    assert found.http_token == "from-environment"
    assert found.redis_url == "redis://file"
    assert found.database_url is None
    assert found.secret("LUCYD_REDIS_URL") == "redis://file"
    assert found.secret("") is None


def test_without_lucyd_toml_dotenv_is_found_here_or_in_the_data_directory(tmp_path: Path) -> None:
    """A key in .env is all that most people ever configure."""
    data = {"LUCYD_DATA_DIR": str(tmp_path / "data")}
    write(tmp_path / "data" / ".env", "LUCYD_HTTP_TOKEN=data")
    assert load(None, data).http_token == "data"
    write(tmp_path / "here" / ".env", "LUCYD_HTTP_TOKEN=here")
    assert load(None, data).http_token == "here"


def test_a_dotenv_that_can_not_be_read_is_a_warning(tmp_path: Path) -> None:
    """The original tolerates it, and variables may be set in another way."""
    (tmp_path / "here" / ".env").mkdir()
    found = load()
    assert any(".env: passed over" in warning for warning in found.warnings)


def test_the_data_directory_comes_from_the_first_place_that_names_one(tmp_path: Path) -> None:
    """Both generations had a word for it."""
    older = write(tmp_path / "older.toml", '[paths]\nstate_dir = "~/state"')
    newer = write(tmp_path / "newer.toml", '[paths]\nstate_dir = "~/state"\ndata_dir = "/data"')
    assert load(older).data_dir == tmp_path / "home" / "state"
    assert load(older, {"LUCYD_STATE_DIR": "/elsewhere"}).data_dir == Path("/elsewhere")
    assert load(newer, {"LUCYD_STATE_DIR": "/elsewhere"}).data_dir == Path("/data")
    assert load(newer, {"LUCYD_DATA_DIR": "~/chosen"}).data_dir == tmp_path / "home" / "chosen"


def test_relative_paths_begin_at_the_file(tmp_path: Path) -> None:
    """A service is started from anywhere."""
    config = write(
        tmp_path / "etc" / "lucyd.toml",
        '[agent]\nworkspace = "ws"\n[tools]\nplugins_dir = "mine"\n'
        '[tools.filesystem]\nallowed_paths = ["~/notes", "x"]\n',
    )
    found = load(config)
    assert (found.workspace, found.workspace_given) == (tmp_path / "etc" / "ws", True)
    assert found.tools.plugins_dir == tmp_path / "etc" / "mine"
    assert found.tools.filesystem.allowed_paths == (tmp_path / "home" / "notes", tmp_path / "etc" / "x")


def test_an_empty_list_of_paths_allows_none(tmp_path: Path) -> None:
    """Left out and empty are two decisions."""
    config = write(tmp_path / "lucyd.toml", "[tools.filesystem]\nallowed_paths = []")
    assert load(config).tools.filesystem.allowed_paths == ()


def test_the_token_file_is_used_when_no_variable_is_set(tmp_path: Path) -> None:
    """The launcher makes one, and all processes must agree on it."""
    write(tmp_path / "home" / ".lucyd" / "http_token", "made-once\n")
    assert load().http_token == "made-once"
    assert load(None, {"LUCYD_HTTP_TOKEN": "set"}).http_token == "set"


def test_port_and_host_of_the_environment_win(tmp_path: Path) -> None:
    """A container or a test decides the port without a file."""
    config = write(tmp_path / "lucyd.toml", '[http]\nport = 9000\nhost = "::1"')
    found = load(config, {"LUCYD_HTTP_PORT": "8123", "LUCYD_HTTP_HOST": "127.0.0.2"})
    assert (found.http.port, found.http.host) == (8123, "127.0.0.2")
    assert load(config).http.port == 9000
    with pytest.raises(ConfigError, match='LUCYD_HTTP_PORT must be a whole number from 1 to 65535, not "abc"'):
        load(config, {"LUCYD_HTTP_PORT": "abc"})


def test_the_reply_is_awaited_as_long_as_a_model_call_may_take_unless_said(tmp_path: Path) -> None:
    """The original has one number for both; a little longer, and the caller reads what became of a model that hangs."""
    config = write(tmp_path / "lucyd.toml", "[behavior]\nagent_timeout_seconds = 42")
    assert load(config).run.wait_seconds == 72
    write(config, "[behavior]\nagent_timeout_seconds = 42\n[run]\nwait_seconds = 7")
    assert load(config).run.wait_seconds == 7


def test_secrets_are_not_in_the_representation() -> None:
    """A configuration is logged sooner or later."""
    secrets = {
        "LUCYD_HTTP_TOKEN": "hidden-1",
        "LUCYD_DATABASE_URL": "postgresql://u:hidden-2@h/d",
        "LUCYD_REDIS_URL": "redis://:hidden-3@h",
        "LUCYD_TELEGRAM_TOKEN": "hidden-4",
        "ANTHROPIC_API_KEY": "hidden-5",
    }
    found = load(None, secrets)
    assert found.models["primary"].api_key == "hidden-5"
    assert found.telegram_token == "hidden-4"
    assert "hidden" not in repr(found)


def test_a_configuration_can_not_be_changed() -> None:
    """All parts of a process must see the same."""
    with pytest.raises(FrozenInstanceError):
        load().http.port = 1  # type: ignore[misc]


def test_unknown_keys_are_passed_over_and_remembered(tmp_path: Path) -> None:
    """A misspelt key should be findable without stopping the start."""
    config = write(tmp_path / "lucyd.toml", "[http]\nprot = 1\n[nowhere]\nx = 1\n[agent.context.tiers.full]\nsoft = 1")
    assert load(config).unknown_keys == (
        "lucyd.toml: http.prot",
        "lucyd.toml: nowhere",
        "lucyd.toml: agent.context.tiers.full.soft",
    )


def test_a_seed_era_configuration_loads_unmodified(tmp_path: Path) -> None:
    """People of the single daemon bring lucyd.toml, providers.d and .env as they are."""
    folder = Path(shutil.copytree(CONFIGS / "seed_era", tmp_path / "seed"))
    found = load(folder / "lucyd.toml")
    assert found.unknown_keys == ()
    assert found.agent.name == "Mira"
    assert found.workspace == folder / "workspace"
    assert found.data_dir == tmp_path / "home" / ".lucyd"
    assert found.agent.context.tiers["operational"].semi_stable == ("HEARTBEAT.md",)
    assert found.agent.skills.always_on == ("compute-routing",)
    assert found.behavior.debounce_ms == 750
    assert found.behavior.max_cost_per_message == Decimal("5.0")
    assert found.behavior.silent_tokens == ("HEARTBEAT_OK", "NO_REPLY")
    assert found.behavior.compaction.threshold_tokens == 120_000
    assert found.channel.type == "telegram"
    assert found.telegram == found.channel.telegram
    assert found.telegram.allowed == {123456789, 987654321}
    assert found.telegram.contacts == {"Anna": 123456789, "Jürgen": 987654321}
    assert found.telegram_token == "123456789:telegram-token-of-the-example"
    assert (found.http.port, found.http_token) == (8111, "http-token-of-the-example")
    assert found.routing["system"] == "subagent"
    assert found.memory.recall.max_episodes_at_start == 5
    assert found.memory.recall.personality.synthesis_style == "narrative"
    assert found.secret(found.tools.web_search.api_key_env) == "brave-key-of-the-example"
    assert len(found.tools.enabled) == 19
    assert set(found.models) == {"primary", "subagent", "compaction", "embeddings"}
    primary, subagent = found.models["primary"], found.models["subagent"]
    assert (primary.provider, primary.model, primary.api_key) == (
        "anthropic",
        "claude-opus-4-6",
        "anthropic-key-of-the-example",
    )
    assert (primary.thinking_mode, subagent.thinking_mode, subagent.thinking_budget) == ("adaptive", "budgeted", 8000)
    assert subagent.rates.cache_read == Decimal("0.3")
    assert found.models["embeddings"].api_key == "openai-key-of-the-example"


def test_a_head_era_configuration_loads_unmodified(tmp_path: Path) -> None:
    """People of the container release have [user], [telegram] and [database], and no [channel]."""
    folder = Path(shutil.copytree(CONFIGS / "head_era", tmp_path / "head"))
    found = load(folder / "lucyd.toml")
    assert found.unknown_keys == ()
    assert found.warnings == ()
    assert (found.agent.id, found.user.name, found.user.timezone) == ("nora-1", "Jonas", "Europe/Vienna")
    assert found.data_dir == Path("/data")
    assert found.database_url == "postgresql://nora:secret-of-the-example@postgres:5432/lucyd"
    assert found.telegram.allowed == {123456789}
    assert found.behavior.debounce_ms == 400
    assert found.memory.recall.max_episodes_at_start == 4
    assert found.models_routing.subagent == "primary"
    assert set(found.models) == {"primary", "embeddings"}
    primary = found.models["primary"]
    assert (primary.provider, primary.base_url) == ("openai", "https://api.mistral.ai/v1")
    assert (primary.rates.input, primary.rates.currency) == (Decimal("1.8"), "EUR")
    assert found.conversion.static_rate == pytest.approx(0.92)
    assert found.metering.currency == "EUR"


def test_importing_the_settings_pulls_in_no_vendor() -> None:
    """Every command and every process pays for this import."""
    code = "import sys, shared.runtime.settings; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"anthropic", "openai", "httpx2", "psycopg", "redis", "pydantic", "asyncio"} & set(done.stdout.split())
