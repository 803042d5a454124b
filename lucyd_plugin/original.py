"""What plugins of the second Lucyd import from its modules ``tools``, ``plugins`` and ``metrics``.

The loader lets these names lead here. Nothing new should be written against them: ``lucyd_plugin`` has the same.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, TypeVar

import lucyd_plugin
from lucyd_plugin import PluginError, PluginTransient, PluginUpstream

Result = TypeVar("Result")


def mark_configured(plugin: str, backend: str = "") -> None:
    """Was how a plugin said that it can work; here its tools say so when they are called."""
    del plugin, backend


def mark_unconfigured(plugin: str, backend: str = "") -> None:
    """The contrary of it."""
    del plugin, backend


async def run_plugin_op(
    plugin: str,
    operation: str,
    fn: Callable[..., Awaitable[Result]],
    *args: object,
    retry_max: int = 2,
    retry_backoff: float = 1.0,
    **kwargs: object,
) -> Result:
    """Call it, and again after a fault that may pass. Its last fault goes through."""
    del plugin, operation
    for left in reversed(range(retry_max + 1)):
        try:
            return await fn(*args, **kwargs)
        except (PluginTransient, PluginUpstream):
            if not left:
                raise
        await asyncio.sleep(retry_backoff)
    raise PluginError("retry_max is below zero")


class Silent:
    """A metric that counts nothing: ``.labels(...).inc()`` and whatever else is said to it."""

    def __getattr__(self, name: str) -> "Silent":
        return _metric(name)

    def __call__(self, *_: Any, **__: Any) -> "Silent":
        """Nothing."""
        return self


def _metric(name: str) -> Silent:
    """Whatever is asked for; not what Python itself looks for in every module, such as ``__file__``."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Silent()


def modules() -> dict[str, ModuleType]:
    """The modules by their names in the original."""
    both = ModuleType("plugins")
    both.__dict__.update({name: getattr(lucyd_plugin, name) for name in lucyd_plugin.__all__})
    both.__dict__.update(
        mark_configured=mark_configured, mark_unconfigured=mark_unconfigured, run_plugin_op=run_plugin_op
    )
    metrics = ModuleType("metrics")
    metrics.__dict__.update(ENABLED=False, __getattr__=_metric)
    return {"tools": both, "plugins": both, "metrics": metrics}
