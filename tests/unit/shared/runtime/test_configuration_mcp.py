"""Servers of the Model Context Protocol as they stand in lucyd.toml."""

from datetime import timedelta
from pathlib import Path

import pytest

from shared.domain.mcp_server import McpServer
from shared.errors import ConfigError
from shared.runtime.settings import Configuration, load_configuration


def read(folder: Path, toml: str, **environ: str) -> Configuration:
    config = folder / "lucyd.toml"
    config.write_text(toml, "utf-8")
    return load_configuration(config, {"HOME": str(folder), "PATH": "/bin", **environ}, find_ollama=lambda: None)


def servers(folder: Path, toml: str, **environ: str) -> dict[str, McpServer]:
    return {server.name: server for server in read(folder, toml, **environ).mcp_servers()}


def test_a_program_gets_the_variables_that_are_named_and_no_other(tmp_path: Path) -> None:
    """What the worker has in its environment is none of its business."""
    toml = '[mcp.servers.files]\ncommand = "npx"\nargs = ["-y", "x"]\nenv = ["ITS_TOKEN", "TZ", "NOT_SET"]\ncwd = "sub"'
    found = servers(tmp_path, toml, ITS_TOKEN="its-secret", TZ="Europe/Vienna", LUCYD_HTTP_TOKEN="ours")["files"]
    assert found.command == ("npx", "-y", "x")
    assert found.environment == {
        "HOME": str(tmp_path), "PATH": "/bin", "ITS_TOKEN": "its-secret", "TZ": "Europe/Vienna",
    }  # fmt: skip
    assert found.folder == tmp_path / "sub"
    assert found.secrets == {"its-secret"}
    assert (found.effect, found.call_timeout) == ("once", timedelta(seconds=60))
    assert "its-secret" not in repr(found)


def test_headers_come_from_the_environment_and_commands_do_not_see_them(tmp_path: Path) -> None:
    """A token that stands in the file is one that stands in backups."""
    toml = (
        '[mcp.servers.web]\nurl = "https://mcp.example/mcp"\ntoken_env = "WEB_T"\n'
        'headers_env = { X-Team = "WEB_TEAM", X-None = "WEB_NONE" }'
    )
    configuration = read(tmp_path, toml, WEB_T="bearer-of-it", WEB_TEAM="the-team")
    (found,) = configuration.mcp_servers()
    assert found.headers == {"Authorization": "Bearer bearer-of-it", "X-Team": "the-team"}
    assert found.missing == ("WEB_NONE",)
    assert {"WEB_T", "WEB_TEAM", "WEB_NONE"} <= configuration.secret_names
    assert {"bearer-of-it", "the-team"} <= configuration.secret_values
    assert "bearer-of-it" not in repr(configuration)


def test_every_mistake_about_servers_is_told_at_once(tmp_path: Path) -> None:
    """Whoever mends one wants to know of the others."""
    toml = """
[mcp.servers.neither]
[mcp.servers.both]
command = "a"
url = "http://b"
[mcp.servers.a__b]
command = "a"
[mcp.servers.web]
url = "http://b"
env = ["X"]
[mcp.servers.program]
command = "a"
token_env = "X"
env = ["sk-this is a secret"]
allow = ["x"]
deny = ["x"]
effect = "local"
call_timeout = 0
headers_env = { "a b" = "X" }
"""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, toml)
    told = "\n".join(caught.value.errors)
    for sentence in (
        "mcp.servers.neither needs either a command",
        "mcp.servers.both needs either a command",
        "mcp.servers.a__b: the name may have",
        "mcp.servers.web.env is for a server with a command",
        "mcp.servers.program.token_env and headers_env are for a server with a url",
        "mcp.servers.program.env must be a list of texts in quotes, each that names an environment variable",
        "mcp.servers.program allows and denies 'x'",
        'mcp.servers.program.effect must be one of "read", "idempotent", "once"',
        "mcp.servers.program.call_timeout must be a number, more than 0",
        "mcp.servers.program.headers_env has a name that no header can have",
    ):
        assert sentence in told
    assert "sk-this" not in told


def test_a_tool_of_a_server_may_be_asked_about_first(tmp_path: Path) -> None:
    """Its name is known only once the server runs; the name of the server is known now."""
    toml = '[mcp.servers.files]\ncommand = "a"\n[tools]\nask_first = ["files__write_file", "filez__write_file"]'
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, toml)
    assert [error for error in caught.value.errors if "ask_first" in error] == [
        "lucyd.toml: tools.ask_first names 'filez__write_file', which is no tool"
    ]
