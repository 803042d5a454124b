"""What a plugin's ``configure()`` may ask for, by the names of its parameters."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucyd_plugin import PluginInvalidInput, PluginNotConfigured
from services.agent_worker.edge.tools.paths import PERSONALITY_FILES, AllowedPaths, ProtectedFiles
from services.agent_worker.edge.tools.real_files import changing, file_errors
from services.agent_worker.ports import ToolFailed
from services.agent_worker.rules.plugin_tools import BadPlugin

OF_THE_ORIGINAL = frozenset(
    {
        "channel", "session_mgr", "session_manager", "provider", "providers", "get_provider", "session_getter",
        "skill_loader", "memory", "pool", "metering", "converter",
    }
)  # fmt: skip
"""Parts of a daemon that is one process. Here they are other processes, and a plugin is given no hold on them."""

_ABSENT = object()
SHORT_NAMES = {
    "workspace": ("agent", "workspace"),
    "state_dir": ("paths", "state_dir"),
    "data_dir": ("paths", "data_dir"),
    "output_truncation": ("tools", "output_truncation"),
}


class PluginConfig:
    """``lucyd.toml`` with all defaults: ``config.raw("section", "key", default=...)``, and ``config.section_key``."""

    def __init__(self, sections: Mapping[str, Any]) -> None:
        self._sections = sections

    def raw(self, *keys: str, default: Any = None) -> Any:
        """The value under these keys, or the default where there is none."""
        found: Any = self._sections
        for key in keys:
            if not isinstance(found, Mapping) or key not in found:
                return default
            found = found[key]
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in SHORT_NAMES:
            value = self.raw(*SHORT_NAMES[name])
            return Path(value) if isinstance(value, str) else value
        found = _flat(self._sections, name)
        if found is _ABSENT:
            raise AttributeError(f"lucyd.toml has nothing that would be called {name}")
        return found


def _flat(sections: Mapping[str, Any], name: str) -> Any:
    """``stt_local_endpoint`` is ``[stt.local] endpoint``."""
    if name in sections:
        return sections[name]
    for key, value in sections.items():
        if isinstance(value, Mapping) and name.startswith(f"{key}_"):
            found = _flat(value, name[len(key) + 1 :])
            if found is not _ABSENT:
                return found
    return _ABSENT


class ToolNames:
    """``tool_registry``: which tools the agent is to have."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    @property
    def tool_names(self) -> list[str]:
        """Their names."""
        return list(self._names)


class NotHere:
    """Stands for a part of the original that plugins are not given; whoever uses it is told so."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        raise PluginNotConfigured(f"plugins are not given '{self._name}' here")

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Tell so."""
        raise PluginNotConfigured(f"plugins are not given '{self._name}' here")


def _nothing(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Offer:
    """What all plugins of a process are offered. ``sections`` are those of ``lucyd.toml``, as plain JSON values;
    ``secret`` gives the value of the variable that a ``*_env`` key names."""

    sections: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tools: Sequence[str] = ()
    secret: Callable[[str], str | None] = field(default=_nothing, repr=False)

    def _save(self, path: str, data: bytes) -> str:
        """Put a file where tools may write, for its owner alone; the real path. Raises ``PluginInvalidInput``."""
        told = PluginConfig(self.sections)
        workspace = Path(told.raw("agent", "workspace", default="."))
        roots = [Path(root) for root in told.raw("tools", "filesystem", "allowed_paths", default=())]
        hidden = [Path(place) for place in told.raw("paths", "hidden", default=())]
        kept = [Path(place) for place in told.raw("paths", "kept", default=())]
        temporary = told.raw("paths", "temporary", default=None)
        try:
            paths = AllowedPaths(
                roots, workspace, hidden=hidden, kept=kept, temporary=Path(temporary) if temporary else None
            )
            real = paths.resolve(path)
            paths.refuse_change(real)
            ProtectedFiles(PERSONALITY_FILES, workspace).refuse(real)
            with file_errors(real), changing(real.parent, create=True) as folder:
                folder.replace(real.name, data, mode=0o600)
        except ToolFailed as error:
            raise PluginInvalidInput(str(error)) from error
        return str(real)

    def arguments(self, configure: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """What to call ``configure`` with. Raises ``BadPlugin`` where it insists on what nobody has."""
        offered = {
            "config": PluginConfig(self.sections),
            "settings": settings,
            "secret": self.secret,
            "save_file": self._save,
            "tool_registry": ToolNames(self.tools),
            "agent_id": PluginConfig(self.sections).raw("agent", "name", default="Lucyd"),
        }
        given: dict[str, Any] = {}
        for name, parameter in inspect.signature(configure).parameters.items():
            if parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}:
                continue
            if name in offered:
                given[name] = offered[name]
            elif parameter.default is parameter.empty:
                if name not in OF_THE_ORIGINAL:
                    raise BadPlugin(f"configure() asks for '{name}', which plugins are not given")
                given[name] = NotHere(name)
        return given
