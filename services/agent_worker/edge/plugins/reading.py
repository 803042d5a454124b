"""Reads one plugin file: imports it, gives it what its ``configure()`` asks for, and sees what it declares."""

import importlib.util
import sys
import tomllib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lucyd_plugin.original import modules
from services.agent_worker.edge.plugins.offered import Offer
from services.agent_worker.rules.plugin_tools import (
    BadPlugin,
    DeclaredPreprocessor,
    DeclaredTool,
    declared_preprocessors,
    declared_tools,
)

PACKAGE = "lucyd_plugins"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that can be used; ``settings`` is its own TOML file."""

    name: str
    path: Path
    settings: Mapping[str, Any]
    tools: Sequence[DeclaredTool] = ()
    preprocessors: Sequence[DeclaredPreprocessor] = ()


def plugin_files(folders: Sequence[Path]) -> list[Path]:
    """The files, by their names; of two with one name that of the earlier folder. Those with a ``_`` first are not
    plugins."""
    found: dict[str, Path] = {}
    for folder in folders:
        try:
            files = sorted(folder.glob("*.py"))
        except OSError:
            continue
        for file in files:
            if not file.name.startswith("_") and file.is_file():
                found.setdefault(file.stem, file)
    return [found[name] for name in sorted(found)]


def _keep(_: Mapping[str, Any]) -> None:
    return


def read_plugin(path: Path, offer: Offer, *, lend: Callable[[Mapping[str, Any]], None] = _keep) -> Plugin:
    """Import and configure it; ``lend`` is told its settings before. Raises ``BadPlugin`` with the reason.

    It runs the plugin's code, so it may also hang.
    """
    settings = _settings(path.with_suffix(".toml"))
    lend(settings)
    module = _imported(path)
    declared = [getattr(module, "TOOLS", ()), getattr(module, "PREPROCESSORS", ())]
    configure = getattr(module, "configure", None)
    if callable(configure):
        try:
            configure(**offer.arguments(configure, settings))
        except BadPlugin:
            raise
        except BaseException as error:
            raise BadPlugin(f"configure() failed: {_fault(error, path)}") from error
        declared = [getattr(module, "TOOLS", ()), getattr(module, "PREPROCESSORS", ())]
    return Plugin(path.stem, path, settings, declared_tools(declared[0]), declared_preprocessors(declared[1]))


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadPlugin(f"{path.name} can't be read: {type(error).__name__}") from error


def _imported(path: Path) -> ModuleType:
    name = f"{PACKAGE}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadPlugin("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles of a module look for it there
    for known, original in modules().items():  # where plugins of the original found their specs and errors
        sys.modules.setdefault(known, original)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the folder is the operator's
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise BadPlugin(f"line {error.lineno} is no Python: {error.msg}") from error
    except BaseException as error:
        raise BadPlugin(f"it failed when it was imported: {_fault(error, path)}") from error
    finally:
        sys.dont_write_bytecode = written
    return module


def _fault(error: BaseException, path: Path) -> str:
    """Type and line, and the module that is missing; not the message, which may quote a key."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"there is no module '{error.name}' here"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{type(error).__name__}{f' in line {lines[-1]}' if lines else ''}"
