"""One call over HTTP: send, read what comes, translate what goes wrong. Both vendors' adapters go this way.

The SDKs do what they are good at (addresses, authentication, connections, refusals); the body goes in and the answer
comes out as bytes through their public ``client.post(..., content=..., cast_to=httpx2.Response)``, because their typed
paths cost more time than everything else in a call. Measured (4 kB system, 21 messages, 8 chunks, one busy core):
1.4-1.5 ms of CPU per streamed call with either SDK, against 7.9-11 ms (openai) and 2.7 ms (anthropic) by ``create``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import orjson

from shared.adapters.models.event_stream import EventStream
from shared.adapters.models.faults import ErrorInAnswer, broken_answer, fault_of_error, fault_of_status, lost_connection
from shared.adapters.models.wire_answer import WireAnswer
from shared.domain.provider import ModelSpec
from shared.errors import LucydError, ModelRejected, ModelTimeout
from shared.ports.model import OnDelta

CALL_ID_HEADER = "X-Lucyd-Call-Id"
"""The provider, or whoever stands before it, can tell by it that two requests are one call."""

CONNECTION = httpx2.Timeout(None, connect=10.0)
"""Seconds to connect. Everything after that is bounded by the call's own timeout, which covers reading too."""

_LEFTOVERS = 0.1
"""Seconds spent on reading what follows an end marker, so that the connection can be used again."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """What differs between the SDKs here: the root of their errors. ``secrets`` must not show up in any sentence;
    ``refusal`` begins the one about a key that was not taken."""

    errors: type[Exception]
    secrets: Collection[str]
    refusal: str = ""


def secrets_of(spec: ModelSpec) -> tuple[str, ...]:
    """What a provider might repeat and nobody may read: the key, and long values of configured headers."""
    return tuple(value for value in (spec.api_key or "", *spec.headers.values()) if len(value) >= 8)


def refusal_of(spec: ModelSpec) -> str:
    """Who does not let us in, and with which variable's key; never the key."""
    provider = f"The model provider ({spec.provider}, {spec.name})"
    if not spec.api_key:
        return f"{provider} refused a request without a key"
    return f"{provider} refused the key" + (f" in {spec.api_key_env}" if spec.api_key_env else "")


async def call_vendor(
    sending: Awaitable[httpx2.Response],
    answer: WireAnswer,
    on_delta: OnDelta | None,
    *,
    vendor: Vendor,
    timeout: timedelta,
) -> None:
    """Fill ``answer``. ``on_delta`` is ``None`` when no stream was asked for.

    Raises ``TryLater``, ``ModelRejected`` and ``ModelTimeout`` as the port promises; what ``on_delta`` raises passes.
    """
    response: httpx2.Response | None = None
    rest: AsyncIterator[bytes] | None = None
    try:
        async with asyncio.timeout(timeout.total_seconds()) as limit:
            response = await sending
            if on_delta is not None and _is_stream(response):
                rest = response.aiter_bytes()
                await _read_events(rest, answer, on_delta)
            else:
                _read_whole(response, await response.aread(), answer, on_delta)
    except TimeoutError as error:
        if not limit.expired():
            raise
        seconds = f"{timeout.total_seconds():g}"
        raise ModelTimeout(f"The model provider did not finish its answer within {seconds} s.") from error
    except ErrorInAnswer as error:
        raise fault_of_error(error.error, secrets=vendor.secrets, refusal=vendor.refusal) from error
    except (vendor.errors, httpx2.HTTPError) as error:
        raise _fault(error, vendor) from error
    finally:
        if response is not None:
            await _let_go(response, rest if answer.finished else None)


def _is_stream(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "")
    # Some servers answer whole although asked to stream, and some call their stream text/plain.
    return "json" not in kind and "html" not in kind


async def _read_events(chunks: AsyncIterator[bytes], answer: WireAnswer, on_delta: OnDelta) -> None:
    events = EventStream()
    async for chunk in chunks:
        for data in events.feed(chunk):
            for kind, piece in answer.event(data):
                on_delta(kind, piece)
            if answer.finished:
                return
    for data in events.close():
        for kind, piece in answer.event(data):
            on_delta(kind, piece)
    if not answer.complete:
        raise broken_answer("the stream ended before its end marker")


def _read_whole(response: httpx2.Response, content: bytes, answer: WireAnswer, on_delta: OnDelta | None) -> None:
    try:
        body: Any = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if "html" in response.headers.get("content-type", "") or content.lstrip().startswith(b"<"):
            raise ModelRejected("The model provider answered with a web page: is its base_url right?") from error
        raise broken_answer("it is not JSON") from error
    if not isinstance(body, dict):
        raise broken_answer("it is not a JSON object")
    for kind, piece in answer.whole(body):
        if on_delta is not None:
            on_delta(kind, piece)


def _fault(error: Exception, vendor: Vendor) -> LucydError:
    response = getattr(error, "response", None)
    if isinstance(response, httpx2.Response):
        return fault_of_status(
            response.status_code,
            getattr(error, "body", None),
            response.headers,
            secrets=vendor.secrets,
            refusal=vendor.refusal,
        )
    # The SDKs wrap the transport's error; a connection that could not be made in time is a lost connection, too.
    return lost_connection(error.__cause__ or error)


async def _let_go(response: httpx2.Response, rest: AsyncIterator[bytes] | None) -> None:
    # An answer in hand must not be lost to what happens on the wire after its end.
    with suppress(TimeoutError, httpx2.HTTPError):
        if rest is not None:
            async with asyncio.timeout(_LEFTOVERS):
                async for _ in rest:
                    pass
        await response.aclose()
