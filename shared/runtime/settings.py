"""The one reader of the environment and of lucyd.toml: everything the operator decided, as one frozen value.

Services take from it what they need at their own door (``services/<name>/settings.py``) and pass plain values on.
"""

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from shared.domain.mcp_server import McpServer
from shared.domain.provider import ModelSpec
from shared.domain.skill import SkillPlace
from shared.errors import ConfigError
from shared.runtime.configuration.choose_models import OFFLINE_MODEL, FindOllama, choose_models, provider_tables
from shared.runtime.configuration.cross_checks import contradictions
from shared.runtime.configuration.dotenv import parse_dotenv
from shared.runtime.configuration.findings import Findings
from shared.runtime.configuration.kinds import Range
from shared.runtime.configuration.mcp_servers import Surroundings, mcp_secrets, mcp_servers, mcp_variables
from shared.runtime.configuration.older_names import carry_over
from shared.runtime.configuration.ollama import ask_ollama, local_address
from shared.runtime.configuration.places import (
    CONFIG_NAME,
    PROJECT,
    data_dir_before_config,
    find_config,
    find_dotenv,
    home_of,
)
from shared.runtime.configuration.reading import Source, Table, expanded, given, read_section
from shared.runtime.configuration.secrets import ORDINARY, secrets_in, variables_named_in, vendors_variables, words_of
from shared.runtime.configuration.sections.channels import Http
from shared.runtime.configuration.sections.operation import Logging, ModelsRouting
from shared.runtime.configuration.sections.whole import Sections
from shared.runtime.configuration.toml_file import read_toml

__all__ = ["Configuration", "environment_configuration", "load_configuration"]

TOKEN_FILE = "http_token"  # noqa: S105  (a file's name)
WAIT_LONGER = 30.0
_PORTS = Range(1, 65535)


@dataclass(frozen=True, kw_only=True)
class Configuration(Sections):
    """Sections and keys as in lucyd.toml, and what was worked out of them and the environment.

    ``environment`` is the environment with ``.env`` added. ``secret_names`` are its variables that no command of the
    agent may see: those that a ``*_env`` key names anywhere, and all of ``.env``; ``secret_values`` is what is known to
    be secret, whatever variable it stands in. Everything secret is left out of ``repr``.
    """

    models: Mapping[str, ModelSpec] = field(default_factory=lambda: {OFFLINE_MODEL.name: OFFLINE_MODEL})
    models_routing: ModelsRouting = field(default_factory=ModelsRouting)
    models_origin: str = ""
    data_dir: Path = field(default_factory=lambda: Path.home() / ".lucyd")
    workspace: Path = field(default_factory=lambda: Path.home() / ".lucyd" / "workspace")
    workspace_given: bool = False
    config_file: Path | None = None
    dotenv_file: Path | None = None
    database_url: str | None = field(default=None, repr=False)
    redis_url: str | None = field(default=None, repr=False)
    http_token: str | None = field(default=None, repr=False)
    telegram_token: str | None = field(default=None, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: frozenset[str] = frozenset()
    secret_values: frozenset[str] = field(default=frozenset(), repr=False)
    unknown_keys: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def secret(self, variable: str) -> str | None:
        """The value of the variable that a ``*_env`` key names; ``None`` when it is not set, empty or not named."""
        return self.environment.get(variable) or None if variable else None

    @property
    def skill_places(self) -> tuple[SkillPlace, ...]:
        """Where skills are looked for; those of a later place override those before it."""
        skills = self.agent.skills
        own = SkillPlace(self.workspace / skills.dir, self.workspace, skills.dir)
        return (own, *(SkillPlace(path, path, str(path)) for path in skills.extra_dirs))

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Files and folders that say how Lucyd is set up, and that it may be told to run: for people to change."""
        beside = self.config_file.parent if self.config_file else Path.cwd()
        folders = (self.tools.plugins_dir, beside / "plugins.d", self.providers.dir or beside / "providers.d")
        return (*((self.config_file,) if self.config_file else ()), *folders)

    def mcp_servers(self) -> tuple[McpServer, ...]:
        """The servers of ``[mcp]``, with what they need of the environment."""
        beside = self.config_file.parent if self.config_file else Path.cwd()
        return mcp_servers(self.mcp, Surroundings(self.environment, self.workspace, beside))


def load_configuration(
    config_path: Path | None, environ: Mapping[str, str], *, find_ollama: FindOllama | None = None
) -> Configuration:
    """Read lucyd.toml, its provider files and .env; ``environ`` wins over .env.

    Nothing is created. ``find_ollama`` is asked only when nothing else can answer. Raises ``ConfigError`` with every
    mistake found.
    """
    findings = Findings()
    config_file = find_config(config_path, environ, findings)
    dotenv_file = find_dotenv(config_file, environ, findings)
    dotenv = _read_dotenv(dotenv_file, findings)
    environment = {**dotenv, **environ}
    name = config_file.name if config_file else CONFIG_NAME
    raw = (read_toml(config_file, name, findings) if config_file else None) or {}
    folder = config_file.parent if config_file else Path.cwd()
    source = Source(name, folder, home_of(environment), findings, carry_over(raw))
    written = copy.deepcopy(raw)
    inline, models_routing = _models_tables(raw, source)
    sections = read_section(Sections, raw, "", source)
    for sentence in contradictions(sections):
        findings.error(f"{name}: {sentence}")
    find_ollama = find_ollama or partial(_ask_local_ollama, environment)
    choice = choose_models(sections, inline, source, environment, find_ollama)
    sections = _completed(sections, raw, source, environment)
    data_dir = _data_dir(sections, environment)
    workspace = sections.agent.workspace or data_dir / "workspace"
    if not given(raw, "tools", "filesystem", "allowed_paths"):
        filesystem = replace(sections.tools.filesystem, allowed_paths=(workspace, Path("/tmp")))  # noqa: S108
        sections = replace(sections, tools=replace(sections.tools, filesystem=filesystem))
    http_token = _http_token(sections, data_dir, environment, findings)
    if findings.errors:
        raise ConfigError(findings.errors)
    database_url = environment.get("LUCYD_DATABASE_URL") or environment.get(sections.database.url_env) or None
    redis_url = environment.get("LUCYD_REDIS_URL") or None
    telegram_token = environment.get(sections.telegram.token_env) or None
    named = variables_named_in(written, sections, *provider_tables(sections, source))
    holding = {*(name for name, secret in named.items() if secret), *mcp_secrets(sections.mcp)}
    held = (word for name in holding for word in words_of(environment.get(name)))
    usual = (environment.get(name) for name in vendors_variables())
    return Configuration(
        **{each.name: getattr(sections, each.name) for each in fields(Sections)},
        models=choice.models,
        models_routing=models_routing,
        models_origin=choice.origin,
        data_dir=data_dir,
        workspace=workspace,
        workspace_given=sections.agent.workspace is not None,
        config_file=config_file,
        dotenv_file=dotenv_file,
        database_url=database_url,
        redis_url=redis_url,
        http_token=http_token,
        telegram_token=telegram_token,
        environment=environment,
        secret_names=frozenset(
            {*named, *vendors_variables(), *mcp_variables(sections.mcp), *(dotenv.keys() - ORDINARY)}
        ),
        secret_values=frozenset(
            secrets_in(choice.models, (database_url, redis_url), (http_token, telegram_token, *held, *usual))
        ),
        unknown_keys=findings.unknown_keys,
        warnings=findings.warnings,
    )


@cache
def environment_configuration() -> Configuration:
    """The configuration of this process, for code that is called by name (jobs) and not through its door.

    Read once, from the environment; ``-c`` of the door stands there as ``LUCYD_CONFIG``. Raises ``ConfigError``.
    """
    return load_configuration(None, os.environ)


def _read_dotenv(path: Path | None, findings: Findings) -> Mapping[str, str]:
    if path is None:
        return {}
    try:
        return parse_dotenv(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        findings.warning(f"{path}: passed over, because it is not UTF-8 text")
    except OSError as error:
        findings.warning(f"{path}: passed over, because it can't be read: {error.strerror}")
    return {}


def _models_tables(raw: dict[str, Any], source: Source) -> tuple[Table, ModelsRouting]:
    """Take ``[models]`` out of the file: the models written there, and the routing that shares their name."""
    models = raw.pop("models", {})
    if not isinstance(models, dict):
        source.refuse("models", "a section with one model each ([models.primary])", models)
        return {}, ModelsRouting()
    routing = models.pop("routing", {})
    return models, read_section(ModelsRouting, routing, "models.routing", source)


def _completed(sections: Sections, raw: Table, source: Source, environment: Mapping[str, str]) -> Sections:
    """Fill in defaults that depend on other keys, on the file's place or on the environment."""
    run, tools = sections.run, sections.tools
    if not given(raw, "run", "wait_seconds"):
        # The caller of a model that hangs shall read what became of it, and not that nobody knows yet.
        run = replace(run, wait_seconds=sections.behavior.agent_timeout_seconds + WAIT_LONGER)
    if not given(raw, "tools", "plugins_dir"):
        own = source.folder / tools.plugins_dir
        tools = replace(tools, plugins_dir=own if own.is_dir() else PROJECT / tools.plugins_dir)
    return replace(
        sections,
        run=run,
        tools=tools,
        http=_http(sections.http, environment, source.findings),
        logging=_logging(sections.logging, environment, source.findings),
    )


def _logging(logging: Logging, environment: Mapping[str, str], findings: Findings) -> Logging:
    match environment.get("LUCYD_LOG_LEVEL", "").lower():
        case "":
            return logging
        case "debug" | "info" | "warning" | "error" as level:
            return replace(logging, level=level)
        case other:
            findings.error(f'LUCYD_LOG_LEVEL must be one of "debug", "info", "warning", "error", not "{other[:20]}"')
            return logging


def _http(http: Http, environment: Mapping[str, str], findings: Findings) -> Http:
    if host := environment.get("LUCYD_HTTP_HOST"):
        http = replace(http, host=host)
    port = environment.get("LUCYD_HTTP_PORT")
    if not port:
        return http
    if port.isascii() and port.isdigit() and _PORTS.allows(int(port)):
        return replace(http, port=int(port))
    findings.error(f'LUCYD_HTTP_PORT must be a whole number{_PORTS.phrase}, not "{port[:20]}"')
    return http


def _data_dir(sections: Sections, environment: Mapping[str, str]) -> Path:
    home = home_of(environment)
    if environment.get("LUCYD_DATA_DIR"):
        return data_dir_before_config(environment)
    if sections.paths.data_dir:
        return sections.paths.data_dir
    if environment.get("LUCYD_STATE_DIR"):
        return expanded(environment["LUCYD_STATE_DIR"], home).absolute()
    return sections.paths.state_dir or home / ".lucyd"


def _http_token(sections: Sections, data_dir: Path, environment: Mapping[str, str], findings: Findings) -> str | None:
    if token := environment.get(sections.http.token_env):
        return token
    path = data_dir / TOKEN_FILE
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        findings.warning(f"{path}: the token can't be read ({type(error).__name__}); nobody can log in over HTTP")
        return None


def _ask_local_ollama(environment: Mapping[str, str]) -> str | None:
    address = local_address(environment)
    return ask_ollama(address) if address else None
