"""One call of a service over HTTP, guarded, bounded in time and size, with its faults told as the kinds that plugins
raise."""

from collections.abc import Mapping
from datetime import timedelta
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
    configured: str = "",
) -> bytes:
    """The body of a good answer. Redirects are faults; what the service says of a fault is not passed on.

    ``configured`` is an address of the operator's, from the settings: its very host and port are asked wherever they
    are, all others only if they are public, and a metadata address of a cloud never.

    Raises ``PluginTransient`` where nothing can have been done, ``PluginUpstream`` where it may have been,
    ``PluginAuth``, ``PluginQuota``, ``PluginInvalidInput``, ``PluginNotConfigured`` and ``PluginEmptyOutput``.
    """
    # Half of the plugins' memory, and most workers never call.
    import httpx2  # noqa: PLC0415

    from shared.adapters.http.egress import open_egress  # noqa: PLC0415
    from shared.domain.destination import origin_of  # noqa: PLC0415
    from shared.errors import BadInput  # noqa: PLC0415
    from shared.ports.egress import EgressFailed, EgressRefused, Question  # noqa: PLC0415

    written = httpx2.Request("POST", "http://nobody", json=json, data=data, files=files)
    kind = {"content-type": written.headers["content-type"]} if "content-type" in written.headers else {}
    question = Question(
        url,
        timedelta(seconds=timeout),
        method="POST",
        headers={**kind, **headers},
        content=written.read(),
        most_bytes=at_most,
        redirects=0,
    )
    try:
        async with open_egress([origin_of(configured)] if configured else []) as egress:
            answer = await egress.ask(question)
    except (BadInput, EgressRefused) as error:
        raise PluginNotConfigured(f"the address is not asked: {error}") from error
    except EgressFailed as error:
        raise (PluginTransient if error.is_unsent else PluginUpstream)(str(error)) from error
    _judge(answer.status)
    if answer.is_cut:
        raise PluginUpstream("the answer is too long, or broke off")
    if not answer.body:
        raise PluginEmptyOutput("the answer is empty")
    return answer.body


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
