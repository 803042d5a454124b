"""Where the command line looks for the gateway, and to whom it shows its token."""

import json
import os
from pathlib import Path

import pytest

from cli.edge.address import Address, find_address
from cli.rules.failure import Failure

GONE = 2**22 + 1
"""No process has this number: it is beyond the largest one."""


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "http_token").write_text("of-the-file\n")
    return tmp_path / "data"


def found(data_dir: Path, url: str | None = None, **environ: str) -> Address:
    return find_address(url, {"HOME": str(data_dir.parent), "LUCYD_DATA_DIR": str(data_dir), **environ})


def launcher(data_dir: Path, pid: int) -> None:
    known = {"pid": pid, "http": "http://127.0.0.1:9999", "database_url": "postgresql://x"}
    (data_dir / "launcher.json").write_text(json.dumps(known))


def test_the_first_address_that_is_named_counts(data_dir: Path) -> None:
    """Option, variable, port of this shell, running launcher, default: in this order."""
    assert found(data_dir).url == "http://127.0.0.1:8100"
    assert found(data_dir, LUCYD_HTTP_PORT="8200").url == "http://127.0.0.1:8200"
    launcher(data_dir, os.getpid())
    assert found(data_dir).url == "http://127.0.0.1:9999"
    assert found(data_dir, LUCYD_HTTP_PORT="8200").url == "http://127.0.0.1:8200"
    assert found(data_dir, LUCYD_URL="http://a:1/").url == "http://a:1"
    assert found(data_dir, "https://b/lucyd/", LUCYD_URL="http://a:1").url == "https://b/lucyd"


def test_what_a_killed_launcher_left_behind_is_passed_over(data_dir: Path) -> None:
    """Its port may be another program's by now."""
    launcher(data_dir, GONE)
    assert found(data_dir).url == "http://127.0.0.1:8100"
    (data_dir / "launcher.json").write_text("{")
    assert found(data_dir).url == "http://127.0.0.1:8100"


def test_the_token_of_the_file_never_leaves_this_machine(data_dir: Path) -> None:
    """A mistyped --url must not hand the key to a stranger; a token that was set is meant to be sent."""
    assert found(data_dir).token == "of-the-file"
    assert found(data_dir, LUCYD_HTTP_TOKEN="set").token == "set"
    assert found(data_dir, "http://elsewhere.example").token is None
    assert found(data_dir, "http://elsewhere.example", LUCYD_HTTP_TOKEN="set").token == "set"
    assert "of-the-file" not in repr(found(data_dir))


def test_the_env_file_counts_as_it_does_for_the_services(data_dir: Path) -> None:
    """Otherwise `lucyd up` would start a gateway that `lucyd chat` does not find."""
    (data_dir.parent / ".env").write_text("LUCYD_HTTP_PORT=8300\nLUCYD_HTTP_TOKEN=of-env\n")
    address = found(data_dir)
    assert (address.url, address.token) == ("http://127.0.0.1:8300", "of-env")


def test_a_mistake_in_the_configuration_stops_no_client(data_dir: Path) -> None:
    """The gateway runs with what it read at its start; doctor tells about the mistake."""
    (data_dir.parent / "lucyd.toml").write_text("[http]\nport = 'x'\n")
    assert found(data_dir, LUCYD_HTTP_PORT="8400").url == "http://127.0.0.1:8400"
    assert found(data_dir).token == "of-the-file"


@pytest.mark.parametrize("url", ["ftp://a", "a:80", "http://", "http://a:99999", "http://u:p@a", "http://a/?x=1"])
def test_what_is_no_address_is_refused_with_a_sentence(data_dir: Path, url: str) -> None:
    """And a password in it is not repeated."""
    with pytest.raises(Failure) as caught:
        found(data_dir, url)
    assert "--url" in str(caught.value)
    assert "u:p" not in str(caught.value)
