"""Configured models, opened: the one place that knows which provider type is which adapter."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from shared.adapters.models.offline import open_offline
from shared.domain.provider import ModelSpec
from shared.errors import ConfigError
from shared.ports.model import Model


@asynccontextmanager
async def open_models(specs: Mapping[str, ModelSpec]) -> AsyncIterator[Mapping[str, Model]]:
    """Every model under the key of its spec, each with one client kept open until leaving.

    Nothing is sent here. Raises ``ConfigError`` with every address, key and header that could never be sent.
    """
    if errors := [error for spec in specs.values() for error in _errors_in(spec)]:
        raise ConfigError(errors)
    async with AsyncExitStack() as stack:
        yield {key: await stack.enter_async_context(_open(spec)) for key, spec in specs.items()}


def _open(spec: ModelSpec) -> AbstractAsyncContextManager[Model]:
    match spec.provider:
        case "anthropic":
            # Importing this SDK costs more than a second, so only those who use it pay.
            from shared.adapters.models.anthropic import open_anthropic  # noqa: PLC0415

            return open_anthropic(spec)
        case "openai":
            # The same: most of a second.
            from shared.adapters.models.openai import open_openai  # noqa: PLC0415

            return open_openai(spec)
        case "offline":
            return open_offline(spec)


def _errors_in(spec: ModelSpec) -> Iterator[str]:
    """What httpx would refuse only at the first call; there a bad address looks like a lost connection, for ever."""
    if spec.base_url is not None and not _is_address(spec.base_url):
        yield f"model {spec.name}: base_url must be an http:// or https:// address"
    if spec.api_key and not _is_sendable(spec.api_key):
        yield f"model {spec.name}: the api key holds characters that no header can carry (a line break, perhaps)"
    for name, value in spec.headers.items():
        if not (_is_sendable(name) and _is_sendable(value)):
            yield f"model {spec.name}: the header {name!r} holds characters that no header can carry"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _is_sendable(value: str) -> bool:
    return value.isascii() and value.isprintable()
