"""What a command sees must not carry the operator's secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.exec_environment import exec_environment


@pytest.mark.parametrize(
    "name",
    [
        "LUCYD_HTTP_PORT",
        "ANTHROPIC_BASE_URL",
        "OPENAI_ORG",
        "BRAVE_KEY",
        "AWS_ACCESS_KEY_ID",
        "GITHUB_TOKEN",
        "CLIENT_SECRET",
        "DB_PASSWORD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "PAIRING_CODE",
        "SMTP_PASS",
        "TENANT_ID",
        "PGPASSWORD",
        "MISTRAL_APIKEY",
        "token",
        "Secret",
    ],
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    """The names of the original, and those that everybody uses besides."""
    assert exec_environment({name: "x"}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://lucy:hunter2@db.example/lucyd",
        "redis://:hunter2@127.0.0.1:6379/0",
        "http://user:p/a@ss@proxy:3128",
        "host=db user=lucy password=hunter2",
    ],
)
def test_a_secret_is_known_by_its_value(value: str) -> None:
    """DATABASE_URL has a harmless name."""
    assert exec_environment({"DATABASE_URL": value}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/home/lucy"),
        ("LANG", "C.UTF-8"),
        ("PWD", "/srv"),
        ("HTTPS_PROXY", "http://proxy.example:3128"),
        ("SITE", "https://example.org/a:b@c"),
        ("KEYBOARD", "de"),
    ],
)
def test_ordinary_variables_stay(name: str, value: str) -> None:
    """A command without PATH and HOME is good for nothing."""
    assert exec_environment({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXX/agent.1"),
        ("GPG_AGENT_INFO", "/home/lucy/.gnupg/S.gpg-agent:1:1"),
        ("TMUX", "/tmp/tmux-1000/default,1,0"),
        ("TMUX_PANE", "%0"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
        ("DISPLAY", ":0"),
        ("WAYLAND_DISPLAY", "wayland-0"),
        ("XAUTHORITY", "/home/lucy/.Xauthority"),
        ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ("NOTIFY_SOCKET", "@/org/freedesktop/systemd1/notify"),
        ("DOCKER_HOST", "unix:///var/run/docker.sock"),
        ("SOME_BUS", "/run/user/1000/some"),
    ],
)
def test_the_ways_into_other_programs_are_dropped(name: str, value: str) -> None:
    """An agent holds keys, a terminal takes commands: neither is the command's business."""
    assert exec_environment({name: value}) == {}


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
def test_nothing_is_invented_or_changed(environment: dict[str, str]) -> None:
    """Only whole variables are dropped."""
    assert exec_environment(environment).items() <= environment.items()


def test_named_variables_and_known_secrets_are_dropped_whatever_they_are_called() -> None:
    """``api_key_env = "CANARY_A"`` looks harmless by its name."""
    environment = {
        "CANARY_A": "by name",
        "COPY": "prefix sk-canary-4711 suffix",
        "PATH": "/opt/sk-canary-4711/bin:/usr/bin",
        "HOME": "sk-canary-4711",
        "KEPT": "hello",
    }
    seen = exec_environment(environment, names={"CANARY_A"}, values={"sk-canary-4711"})
    assert seen == {"PATH": "/opt/sk-canary-4711/bin:/usr/bin", "KEPT": "hello"}
