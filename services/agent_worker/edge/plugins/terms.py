"""What of the configuration plugins need, and what they may see of it."""

import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from shared.runtime.configuration.places import PROJECT
from shared.runtime.configuration.secrets import variables_named_in
from shared.runtime.configuration.sections.whole import Sections
from shared.runtime.settings import Configuration

IN_THE_BOX = PROJECT / "plugins.d"
FOR_PLUGINS = frozenset({"tools", "stt"})
NOT_SHOWN = frozenset({"models", "mcp"})
"""Sections in which people write keys and headers; plugins get them by no other way than their own settings."""


def named_in(settings: Mapping[str, Any]) -> frozenset[str]:
    """The variables that a plugin's own settings name."""
    return frozenset(variables_named_in(settings))


@dataclass(frozen=True, slots=True)
class PluginTerms:
    """``folders`` are searched in this order. ``environment`` carries no secret; ``secret`` gives one by its variable,
    ``lent`` are the variables that ``*_env`` keys name in sections of lucyd.toml that are about tools and speech, or
    that Lucyd itself has no use for."""

    folders: Sequence[Path]
    enabled: Sequence[str]
    sections: Mapping[str, Any] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    secret: Callable[[str], str | None] = field(repr=False)
    lent: frozenset[str]
    timeout: timedelta
    processes: int

    def seeing(self, temporary: Path | None) -> "PluginTerms":
        """The same, where commands see that folder as ``/tmp``."""
        if temporary is None:
            return self
        paths = {**self.sections.get("paths", {}), "temporary": str(temporary)}
        return replace(self, sections={**self.sections, "paths": paths})


def plugin_terms(configuration: Configuration, environment: Mapping[str, str]) -> PluginTerms:
    """``environment`` is the one that commands see."""
    tools = configuration.tools
    sections = _sections(configuration)
    own = tools.plugins_dir.expanduser()
    houses = {each.name for each in fields(Sections)} - FOR_PLUGINS
    return PluginTerms(
        folders=(own,) if own.resolve() == IN_THE_BOX.resolve() else (own, IN_THE_BOX),
        enabled=tools.enabled,
        sections=sections,
        environment=environment,
        secrets=configuration.secret_values,
        secret=configuration.secret,
        lent=frozenset(variables_named_in({name: value for name, value in sections.items() if name not in houses})),
        timeout=timedelta(seconds=tools.plugin_timeout),
        processes=tools.plugin_processes,
    )


def _sections(configuration: Configuration) -> Mapping[str, Any]:
    """The sections as they are read, and of the file what Lucyd itself has no use for."""
    read = {each.name: getattr(configuration, each.name) for each in fields(Sections)}
    written: Mapping[str, Any] = {}
    if configuration.config_file is not None:
        written = tomllib.loads(configuration.config_file.read_text(encoding="utf-8"))
    whole = _laid_over(_plain(written), _plain(read))
    whole.setdefault("agent", {})["workspace"] = str(configuration.workspace)
    whole.setdefault("paths", {}).update(data_dir=str(configuration.data_dir), state_dir=str(configuration.data_dir))
    whole["http"]["download_dir"] = whole["http"].get("download_dir") or tempfile.gettempdir()
    hidden = (configuration.data_dir, *((configuration.dotenv_file,) if configuration.dotenv_file else ()))
    whole["paths"]["hidden"] = [str(path) for path in hidden]
    whole["paths"]["kept"] = [str(path) for path in configuration.own_files]
    return {name: value for name, value in whole.items() if name not in NOT_SHOWN}


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[key] = _laid_over(under, value) if both and isinstance(under, Mapping) else value
    return merged


def _plain(value: Any) -> Any:
    """As JSON could hold it: a plugin's process is told all of it as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, Decimal):
        return float(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
