"""What a configuration knows to be secret, so that nothing it starts for others gets to see it."""

from pathlib import Path

import pytest

from shared.runtime.settings import Configuration, load_configuration

PROVIDER = (
    'type = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
    '[models.primary]\nmodel = "m"\napi_key_env = "CANARY_A"\n[models.primary.headers]\nX-Team = "of-the-header"\n'
)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(tmp_path: Path, text: str = "", dotenv: str = "", **environ: str) -> Configuration:
    (tmp_path / "providers.d").mkdir(exist_ok=True)
    (tmp_path / "providers.d" / "mine.toml").write_text(PROVIDER)
    (tmp_path / "providers.d" / "idle.toml").write_text('api_key_env = "IDLE"\n')
    (tmp_path / "lucyd.toml").write_text(text)
    (tmp_path / ".env").write_text(dotenv)
    return load_configuration(tmp_path / "lucyd.toml", {"HOME": str(tmp_path), **environ}, find_ollama=lambda: None)


def test_every_variable_that_a_file_names_is_secret(tmp_path: Path) -> None:
    """Whatever it is called, in a section that nobody knows, and in a provider file that is not loaded."""
    text = (
        '[providers]\nload = ["mine"]\n[http]\ncallback_token_env = "CALL"\n[plugins.weather]\napi_key_env = "SUN"\n'
        '[[plugins.more]]\nsecret_env = "LISTED"\n'
    )
    found = load(tmp_path, text, CANARY_A="key-of-the-model")
    assert {"CANARY_A", "IDLE", "CALL", "SUN", "LISTED", "LUCYD_HTTP_TOKEN", "MISTRAL_API_KEY"} <= found.secret_names
    assert found.models["primary"].api_key_env == "CANARY_A"


def test_what_stands_in_dotenv_is_secret_but_for_what_every_command_needs(tmp_path: Path) -> None:
    """The file is there for secrets; a PATH in it is none."""
    found = load(tmp_path, "", "PLAIN=hello\nPATH=/opt/bin:/usr/bin\n", PLAIN="of the shell")
    assert "PLAIN" in found.secret_names
    assert "PATH" not in found.secret_names


def test_known_secrets_are_collected_and_never_shown(tmp_path: Path) -> None:
    """Keys, tokens, passwords as they are written and as they are meant; short ones would be found by chance."""
    found = load(
        tmp_path,
        '[providers]\nload = ["mine"]\n[http]\ncallback_token_env = "CALL"\n',
        "CANARY_A=key-of-the-model\n",
        LUCYD_HTTP_TOKEN="token-of-http",
        LUCYD_TELEGRAM_TOKEN="token-of-telegram",
        LUCYD_DATABASE_URL="postgresql://u:data%20base%20word@127.0.0.1/x",
        LUCYD_REDIS_URL="redis://:word-of-redis@127.0.0.1/0",
        CALL="token-of-callback",
        OPENAI_API_KEY="short",
    )
    assert found.secret_values == {
        "key-of-the-model", "of-the-header", "token-of-http", "token-of-telegram", "data%20base%20word",
        "data base word", "word-of-redis", "token-of-callback",
    }  # fmt: skip
    for secret in found.secret_values - {"of-the-header"}:
        assert secret not in repr(found)


def test_secrets_that_stand_in_one_variable_are_known_each_by_itself(tmp_path: Path) -> None:
    """Two of them are live while one is replaced, and a command may print either."""
    found = load(
        tmp_path, '[http]\ncallback_secret_env = "SIGNING"\n', SIGNING="whsec_b2xkLW9sZC1vbGQ=,\nwhsec_bmV3LW5ldy1uZXc="
    )
    assert {"whsec_b2xkLW9sZC1vbGQ=", "whsec_bmV3LW5ldy1uZXc="} <= found.secret_values


@pytest.mark.parametrize(
    "url",
    [
        "host=db user=u password=word-of-dsn",
        "host=db password = 'word-of-dsn'",
        "postgresql://db/x?password=word-of-dsn",
    ],
)
def test_the_password_of_a_database_is_found_in_every_spelling(tmp_path: Path, url: str) -> None:
    """libpq takes all of them."""
    assert load(tmp_path, LUCYD_DATABASE_URL=url).secret_values == {"word-of-dsn"}
