"""From ``[mcp.servers.<name>]`` and the environment to the servers that can be reached."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from shared.domain.mcp_server import LONGEST_NAME, McpServer, is_server_name
from shared.runtime.configuration.places import home_of
from shared.runtime.configuration.reading import expanded
from shared.runtime.configuration.secrets import ORDINARY
from shared.runtime.configuration.sections.mcp import Mcp, McpServerTable

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_SHORTEST_SECRET = 6
# What a program can't do without, and what carries no secret on any machine.
_PASSED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where servers find themselves: ``beside`` is the folder of lucyd.toml."""

    environment: Mapping[str, str] = field(repr=False)
    workspace: Path
    beside: Path


def mcp_servers(mcp: Mcp, around: Surroundings) -> tuple[McpServer, ...]:
    """Every server of the configuration, in the order of their names."""
    return tuple(_server(name, table, around) for name, table in sorted(mcp.servers.items()))


def mcp_secrets(mcp: Mcp) -> frozenset[str]:
    """The variables with which we make ourselves known to servers."""
    tables = mcp.servers.values()
    return frozenset({name for table in tables for name in (table.token_env, *table.headers_env.values())} - {""})


def mcp_variables(mcp: Mcp) -> frozenset[str]:
    """The variables that servers are given, which no command of the agent may see."""
    named = {name for table in mcp.servers.values() for name in table.env}
    return mcp_secrets(mcp) | (named - ORDINARY)


def mcp_contradictions(mcp: Mcp) -> Iterator[str]:
    """One sentence for each thing that can't hold."""
    for name, table in mcp.servers.items():
        at = f"mcp.servers.{name}"
        if not is_server_name(name):
            yield (
                f"{at}: the name may have letters, digits, - and single _ between them, {LONGEST_NAME} characters "
                "at most"
            )
        if bool(table.command.strip()) == bool(table.url):
            yield f"{at} needs either a command (a program to start) or a url (a server that runs), and not both"
        elif table.url:
            yield from _only_of_programs(at, table)
        elif table.token_env or table.headers_env:
            yield f"{at}.token_env and headers_env are for a server with a url; name variables for a program in env"
        for header in table.headers_env:
            if not _HEADER.fullmatch(header):
                yield f"{at}.headers_env has a name that no header can have"
        if both := sorted(set(table.allow) & set(table.deny)):
            yield f"{at} allows and denies {both[0]!r}"
        if any("\0" in text for text in (table.command, *table.args, table.cwd)):
            yield f"{at} has a character in command, args or cwd that none can have"


def _only_of_programs(at: str, table: McpServerTable) -> Iterator[str]:
    given = {"args": table.args, "env": table.env, "cwd": table.cwd}
    for key in [key for key, value in given.items() if value]:
        yield f"{at}.{key} is for a server with a command; this one has a url"


def _server(name: str, table: McpServerTable, around: Surroundings) -> McpServer:
    environment = around.environment
    bearer = {"Authorization": table.token_env} if table.token_env else {}
    headers_from = {**table.headers_env, **bearer}
    missing = [variable for variable in headers_from.values() if not environment.get(variable)]
    secrets = {environment.get(variable, "") for variable in headers_from.values()}
    secrets |= {environment.get(variable, "") for variable in table.env if variable not in ORDINARY}
    return McpServer(
        name=name,
        enabled=table.enabled,
        command=(table.command.strip(), *table.args) if table.command else (),
        environment=_environment(table, environment) if table.command else {},
        folder=_folder(table, around) if table.command else None,
        url=table.url,
        headers={
            header: f"Bearer {environment[variable]}" if bearer and header == "Authorization" else environment[variable]
            for header, variable in headers_from.items()
            if variable not in missing
        },
        secrets=frozenset(each for each in secrets if len(each) >= _SHORTEST_SECRET),
        missing=tuple(missing),
        allow=frozenset(table.allow),
        deny=frozenset(table.deny),
        effect=table.effect,
        effects=dict(table.effects),
        trust_annotations=table.trust_annotations,
        start_timeout=timedelta(seconds=table.start_timeout),
        call_timeout=timedelta(seconds=table.call_timeout),
        max_tools=table.max_tools,
        max_schema_bytes=table.max_schema_bytes,
    )


def _environment(table: McpServerTable, environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in (*_PASSED, *table.env) if name in environment}


def _folder(table: McpServerTable, around: Surroundings) -> Path:
    home = home_of(around.environment)
    if not table.cwd:
        return around.workspace if around.workspace.is_dir() else home
    return (around.beside / expanded(table.cwd, home)).absolute()
