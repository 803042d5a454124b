"""What the launcher keeps in the data folder."""

import socket
import time
from pathlib import Path

import pytest

from deploy.local import ports, state
from deploy.local.embedded_postgres import reason_of
from deploy.local.given_redis import check_redis
from deploy.local.greeting import TokenPlace, greeting
from deploy.local.workspace import provide_workspace
from shared.domain.provider import ModelSpec
from shared.errors import ConfigError


def test_the_data_folder_and_its_secrets_are_their_owners_alone(tmp_path: Path) -> None:
    """Other users of the machine must not read conversations or passwords."""
    folder = state.open_folder(tmp_path / "new" / "data")
    secret = folder / "secret"
    first = state.keep_secret(secret)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert secret.stat().st_mode & 0o777 == 0o600
    assert state.keep_secret(secret) == first
    assert len(first) >= 40


def test_a_data_folder_that_is_a_file_is_named_in_one_sentence(tmp_path: Path) -> None:
    """A traceback would not tell which folder is meant."""
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match="data") as caught:
        state.open_folder(tmp_path / "data")
    assert len(caught.value.errors) == 1


def test_one_launcher_has_a_data_folder(tmp_path: Path) -> None:
    """Two servers on one cluster would be the end of it."""
    folder = state.open_folder(tmp_path)
    with state.claim(folder), pytest.raises(ConfigError, match="already running"), state.claim(folder):
        pass
    with state.claim(folder):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ports": 3}', '{"ports": {"postgres": "x"}}'])
def test_damaged_port_memory_counts_as_none(tmp_path: Path, text: str) -> None:
    """Ports can be chosen anew; refusing to start over a cache would be silly."""
    (tmp_path / "local.json").write_text(text)
    assert state.read_ports(tmp_path) == {}


def test_ports_are_remembered(tmp_path: Path) -> None:
    """Whoever noted down an address finds the server there again."""
    state.write_ports(tmp_path, {"postgres": 4711})
    assert state.read_ports(tmp_path) == {"postgres": 4711}


def test_a_free_port_of_the_past_is_taken_again_and_an_avoided_one_is_not() -> None:
    """The same address for every start, unless it has just failed."""
    port = ports.choose(None)
    assert ports.choose(port) == port
    assert ports.choose(port, avoid=frozenset({port})) != port


def test_the_example_workspace_is_copied_once(tmp_path: Path) -> None:
    """What the person wrote into it must never be overwritten."""
    example = tmp_path / "example"
    example.mkdir()
    (example / "SOUL.md").write_text("kind")
    workspace = tmp_path / "data" / "workspace"
    workspace.parent.mkdir()
    assert provide_workspace(workspace, example)
    (workspace / "SOUL.md").write_text("mine")
    assert not provide_workspace(workspace, example)
    assert (workspace / "SOUL.md").read_text() == "mine"


def test_the_greeting_says_when_no_model_is_configured_and_shows_no_token(tmp_path: Path) -> None:
    """Whoever talks to the stand-in should know it; and terminals are recorded and shared."""
    file = tmp_path / "a b" / "http_token"
    offline = ModelSpec(name="primary", provider="offline", model="offline")
    text = greeting("http://127.0.0.1:8100", token=TokenPlace(file), data_dir=tmp_path, model=offline, here=tmp_path)
    assert "no model is configured" in text
    assert f"$(cat '{file}')" in text
    real = ModelSpec(name="primary", provider="anthropic", model="claude", api_key="sk-secret")
    text = greeting("http://127.0.0.1:8100", token=TokenPlace(None), data_dir=tmp_path, model=real, here=tmp_path)
    assert "claude (anthropic)" in text
    assert "sk-secret" not in text
    assert "$LUCYD_HTTP_TOKEN" in text
    dotenv = tmp_path / ".env"
    token = TokenPlace(None, "MY_TOKEN", dotenv)
    text = greeting("http://127.0.0.1:8100", token=token, data_dir=tmp_path, model=real, here=tmp_path)
    assert 'Bearer $MY_TOKEN"' in text
    assert f"MY_TOKEN is set in {dotenv}" in text


def test_an_open_data_folder_is_shut(tmp_path: Path) -> None:
    """It may have been made by hand before the first start; conversations and passwords come into it."""
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    shown: list[str] = []
    state.open_folder(folder, show=shown.append)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(shown) == 1
    assert "755" in shown[0]
    state.open_folder(folder, show=shown.append)
    assert len(shown) == 1


def test_a_file_where_the_data_folder_or_one_above_it_should_be_is_called_a_file(tmp_path: Path) -> None:
    """ "File exists" would send people looking for a folder."""
    (tmp_path / "data").write_text("")
    for folder in (tmp_path / "data", tmp_path / "data" / "below"):
        with pytest.raises(ConfigError, match=f"{tmp_path / 'data'} is a file, not a folder"):
            state.open_folder(folder)


def test_the_reason_of_a_postgres_that_ended_is_a_whole_sentence() -> None:
    """Postgres spreads some of its sentences over lines, and the last one alone means nothing."""
    said = (
        'postgres: could not find the database system\nExpected to find it in the directory "/d",\n'
        'but could not open file "/d/global/pg_control": No such file or directory\n'
    )
    assert reason_of(said) == (
        'could not find the database system. Expected to find it in the directory "/d", '
        'but could not open file "/d/global/pg_control": No such file or directory'
    )
    assert reason_of("LOG:  starting\n1 FATAL:  no space\nLOG:  down\n") == "no space"
    assert reason_of("") == "it gave no reason"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://:secret-word@127.0.0.1:1/0", "Redis at 127.0.0.1:1 can't be reached: Connection refused; "),
        ("redis://:secret-word@no.host.invalid/0", "Redis at no.host.invalid:6379 can't be reached: "),
        ("nonsense", "LUCYD_REDIS_URL is not a Redis address"),
    ],
)
def test_a_redis_that_is_not_there_is_one_sentence(url: str, says: str) -> None:
    """Before anything starts, as for Postgres; never with the password."""
    with pytest.raises(ConfigError) as caught:
        check_redis(url)
    assert str(caught.value).startswith(says)
    assert "secret-word" not in str(caught.value)
    assert len(caught.value.errors) == 1


def test_a_redis_that_does_not_answer_is_given_up_within_seconds() -> None:
    """It accepts and is silent, as a hung one."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(ConfigError, match="no answer"):
            check_redis(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        assert time.monotonic() - began < 4.5
