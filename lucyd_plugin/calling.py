"""One call of a service over HTTP, bounded in time and size, with its faults told as the kinds that plugins raise."""

import asyncio
from collections.abc import Mapping
from typing import Any

from lucyd_plugin import (
    PluginAuth,
    PluginEmptyOutput,
    PluginInvalidInput,
    PluginNotConfigured,
    PluginQuota,
    PluginTransient,
    PluginUpstream,
)

MOST = 25_000_000
"""Bytes of an answer."""


async def post(
    url: str,
    *,
    headers: Mapping[str, str],
    timeout: float,
    at_most: int = MOST,
    json: Any = None,
    data: Mapping[str, str] | None = None,
    files: Mapping[str, tuple[str, bytes, str]] | None = None,
) -> bytes:
    """The body of a good answer. Redirects are faults; what the service says of a fault is not passed on.

    Raises ``PluginTransient`` where nothing can have been done, ``PluginUpstream`` where it may have been,
    ``PluginAuth``, ``PluginQuota``, ``PluginInvalidInput``, ``PluginNotConfigured`` and ``PluginEmptyOutput``.
    """
    import httpx2  # noqa: PLC0415 - half of the plugins' memory, and most workers never call

    try:
        async with (
            asyncio.timeout(timeout),
            httpx2.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client,
            client.stream("POST", url, headers=dict(headers), json=json, data=data, files=files) as answer,
        ):
            _judge(answer.status_code)
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > at_most:
                    raise PluginUpstream("the answer is too long")
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise PluginTransient(f"no connection: {type(error).__name__}") from error
    except httpx2.InvalidURL as error:
        raise PluginNotConfigured("the address is none") from error
    except (httpx2.HTTPError, TimeoutError) as error:
        raise PluginUpstream(f"the call broke off: {type(error).__name__}") from error
    if not body:
        raise PluginEmptyOutput("the answer is empty")
    return bytes(body)


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if status in {401, 403}:
        raise PluginAuth(f"status {status}")
    if status in {402, 429}:
        raise PluginQuota(f"status {status}")
    if status == 503:
        raise PluginTransient(f"status {status}")
    if 400 <= status < 500:
        raise PluginInvalidInput(f"the service refused this call with status {status}")
    raise PluginUpstream(f"status {status}")
