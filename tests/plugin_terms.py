"""Plugins of a test: files in a folder, and what they are told of the configuration."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from services.agent_worker.edge.plugins.plugin_tool import Manner
from services.agent_worker.edge.plugins.terms import PluginTerms, plugin_terms
from shared.runtime.settings import load_configuration

SECRET = "sk-a-secret-that-nobody-may-read"
QUICK = Manner(timedelta(seconds=20), pause=0.01, output_limit=30_000, secrets=(SECRET,))


def put(folder: Path, name: str, text: str) -> Path:
    """Write a file of a plugin."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text), "utf-8")
    return path


def terms(folder: Path, *enabled: str, toml: str = "", environment: Mapping[str, str] | None = None) -> PluginTerms:
    """What a worker would have with this lucyd.toml, and these tools enabled; no plugin but those of the folder."""
    config = put(folder.parent, "lucyd.toml", f'[agent]\nname = "Testbert"\n{toml}')
    environ: dict[str, Any] = {"HOME": str(folder.parent), "PATH": "/usr/bin:/bin", **(environment or {})}
    read = load_configuration(config, environ, find_ollama=lambda: None)
    base = plugin_terms(read, {"PATH": "/usr/bin:/bin"})
    return replace(base, folders=(folder,), enabled=enabled, secrets=frozenset({SECRET}))
