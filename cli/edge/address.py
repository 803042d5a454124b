"""Where the gateway is, and the token for it. The only place of the command line that reads the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from cli.edge.launcher_file import read_launcher
from cli.rules.failure import Failure
from shared.errors import ConfigError
from shared.runtime.configuration.places import data_dir_before_config
from shared.runtime.settings import TOKEN_FILE, load_configuration

DEFAULT_PORT = 8100
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - how a setting reads, not bound


@dataclass(frozen=True, slots=True)
class Address:
    """``url`` without a slash at its end. ``given`` when somebody named it, or a launcher says that it runs there."""

    url: str
    token: str | None = field(repr=False)
    data_dir: Path
    given: bool = False

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        return is_local(self.url)


@dataclass(frozen=True, slots=True)
class _Settings:
    environment: Mapping[str, str]
    data_dir: Path
    host: str
    port: int
    token: str | None


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return dict(os.environ)  # noqa: TID251 - the door of the command line, as settings.py is that of the services


def find_address(url: str | None, environ: Mapping[str, str], data_dir: Path | None = None) -> Address:
    """The first of: ``url``, LUCYD_URL, LUCYD_HTTP_PORT of this shell, what the running launcher says, this machine at
    the configured port or 8100.

    ``.env`` and lucyd.toml count as they do for the services. The token is LUCYD_HTTP_TOKEN, else the file in the data
    directory, which is for this machine's gateway alone and is sent to no other. Raises ``Failure`` for an address
    that is none.
    """
    if data_dir is not None:
        environ = {**environ, "LUCYD_DATA_DIR": str(data_dir.expanduser())}
    settings = _settings(environ)
    launcher = read_launcher(settings.data_dir)
    if url:
        found, given = _checked(url, "--url"), True
    elif named := settings.environment.get("LUCYD_URL"):
        found, given = _checked(named, "LUCYD_URL"), True
    elif environ.get("LUCYD_HTTP_PORT") or environ.get("LUCYD_HTTP_HOST"):
        found, given = _here(settings), False
    elif launcher:
        found, given = _checked(launcher.http, "launcher.json"), True
    else:
        found, given = _here(settings), False
    token = settings.token or (_token_of_file(settings.data_dir) if is_local(found) else None)
    return Address(found, token, settings.data_dir, given)


def is_local(url: str) -> bool:
    """Whether an address is on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def _settings(environ: Mapping[str, str]) -> _Settings:
    try:
        read = load_configuration(None, environ, find_ollama=lambda: None)
    except ConfigError:
        # The gateway may have been started before the mistake was made; `lucyd doctor` tells about it.
        port = environ.get("LUCYD_HTTP_PORT", "")
        return _Settings(
            environ,
            data_dir_before_config(environ),
            environ.get("LUCYD_HTTP_HOST", ""),
            int(port) if port.isascii() and port.isdigit() else DEFAULT_PORT,
            environ.get("LUCYD_HTTP_TOKEN") or None,
        )
    return _Settings(read.environment, read.data_dir, read.http.host, read.http.port, read.secret(read.http.token_env))


def _here(settings: _Settings) -> str:
    host = _EVERYWHERE.get(settings.host, settings.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _checked(url: str, by: str) -> str:
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Failure(f"{by} must be an address such as http://127.0.0.1:{DEFAULT_PORT}.")
    if parts.username is not None or parts.query or parts.fragment:
        raise Failure(f"{by} must be host and port alone; the token belongs in LUCYD_HTTP_TOKEN.")
    return url.strip().rstrip("/")


def _token_of_file(data_dir: Path) -> str | None:
    try:
        return (data_dir / TOKEN_FILE).read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except NotADirectoryError as fault:
        raise Failure(f"The data folder {data_dir} is a file, not a folder; set LUCYD_DATA_DIR.") from fault
    except (OSError, UnicodeDecodeError) as fault:
        raise Failure(f"The token in {data_dir / TOKEN_FILE} can't be read; set LUCYD_HTTP_TOKEN.") from fault
