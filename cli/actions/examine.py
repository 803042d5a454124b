"""Look at everything Lucyd needs, with or without anything running."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cli.edge.address import find_address
from cli.edge.gateway_client import Patience, connect
from cli.edge.launcher_file import Launcher, read_launcher
from cli.edge.surroundings import is_file, is_port_taken, look_at_folder, open_to_others, unreadable
from cli.rules.diagnosis import (
    Finding,
    on_commands,
    on_data_dir,
    on_gateway,
    on_models,
    on_token,
    on_tools,
    on_workspace,
)
from cli.rules.failure import Failure
from shared.errors import ConfigError
from shared.runtime.configuration.places import data_dir_before_config
from shared.runtime.configuration.sections.tools import KNOWN_TOOLS
from shared.runtime.settings import TOKEN_FILE, Configuration, load_configuration

_EMBEDDED = "of `lucyd up`: not running, so not looked at"
_PATIENCE = Patience(connect=2.0, answer=5.0)


@dataclass(frozen=True, slots=True)
class Examiners:
    """Look at a server by its address; they raise nothing."""

    postgres: Callable[[str], Sequence[Finding]]
    redis: Callable[[str], Sequence[Finding]]


def examine(config: Path | None, url: str | None, environ: Mapping[str, str], examiners: Examiners) -> list[Finding]:
    """Everything, in the order in which it is needed. Changes nothing and never tells a secret."""
    try:
        read = load_configuration(config, environ)
    except ConfigError as fault:
        findings = [Finding("fail", "configuration", error) for error in fault.errors]
        data_dir = data_dir_before_config(environ)
        launcher = read_launcher(data_dir)
        findings.append(on_data_dir(look_at_folder(data_dir)))
        findings += _servers(environ.get("LUCYD_DATABASE_URL"), environ.get("LUCYD_REDIS_URL"), launcher, examiners)
        return findings + _gateway(url, environ, launcher)
    launcher = read_launcher(read.data_dir)
    findings = _configuration(read)
    findings += [on_data_dir(look_at_folder(read.data_dir)), _token(read), _workspace(read)]
    findings += on_tools(read.tools.enabled, KNOWN_TOOLS)
    if "exec" in read.tools.enabled:
        findings.append(on_commands(read.tools.exec.sandbox, bubblewrap=shutil.which("bwrap") is not None))
    findings += on_models(read.models, read.models_origin)
    findings += _servers(read.database_url, read.redis_url, launcher, examiners)
    return findings + _gateway(url, environ, launcher)


def _configuration(read: Configuration) -> list[Finding]:
    told = str(read.config_file) if read.config_file else "no lucyd.toml, so the defaults"
    findings = [Finding("ok", "configuration", told)]
    findings += [Finding("warn", "configuration", warning) for warning in read.warnings]
    mend = "correct or remove it; docs/configuration.md lists every key"
    return findings + [Finding("warn", "configuration", f"unknown key {key}", mend) for key in read.unknown_keys]


def _token(read: Configuration) -> Finding:
    file = read.data_dir / TOKEN_FILE
    given = read.secret(read.http.token_env) is not None
    return on_token(given=given, file=str(file), exists=is_file(file), open_to_others=open_to_others(file))


def _workspace(read: Configuration) -> Finding:
    names = (*read.agent.context.stable, *read.agent.context.semi_stable)
    return on_workspace(
        look_at_folder(read.workspace),
        named=read.workspace_given,
        unreadable=unreadable(read.workspace / name for name in names),
    )


def _servers(
    database_url: str | None, redis_url: str | None, launcher: Launcher | None, examiners: Examiners
) -> list[Finding]:
    """Those that are named, else those of a running launcher."""
    database = database_url or (launcher.database_url if launcher else None)
    redis = redis_url or (launcher.redis_url if launcher else None)
    return [
        *(examiners.postgres(database) if database else [Finding("ok", "Postgres", _EMBEDDED)]),
        *(examiners.redis(redis) if redis else [Finding("ok", "Redis", _EMBEDDED)]),
    ]


def _gateway(url: str | None, environ: Mapping[str, str], launcher: Launcher | None) -> list[Finding]:
    try:
        address = find_address(url, environ)
        with connect(address, _PATIENCE) as gateway:
            state = gateway.look()
    except Failure as fault:
        return [Finding("fail", "gateway", str(fault))]
    parts = urlsplit(address.url)
    free = not address.local or not is_port_taken(parts.hostname or "", parts.port or 80)
    expected = address.given or launcher is not None
    return on_gateway(state, expected=expected, port_taken=not state.answers and not free)
