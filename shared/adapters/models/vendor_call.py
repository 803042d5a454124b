"""One call over HTTP: send, read what comes, translate what goes wrong. Both vendors' adapters go this way.

The body goes in and the answer comes out as bytes (``sender`` says how), because the SDKs' typed paths cost more time
than everything else in a call, and their untyped ones still most of it: docs/adr/0016-lines-of-our-own-to-models.md.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx2
import orjson

from shared.adapters.models.event_stream import EventStream
from shared.adapters.models.faults import ErrorInAnswer, broken_answer, fault_of_error, fault_of_status, lost_connection
from shared.adapters.models.reply import Reply
from shared.adapters.models.sender import CALL_ID_HEADER, TRACEPARENT_HEADER, Sender
from shared.adapters.models.think_spans import Delta, joined
from shared.adapters.models.wire_answer import WireAnswer
from shared.domain.provider import ModelSpec
from shared.errors import LucydError, ModelRejected, ModelTimeout
from shared.ports.model import ModelRequest, OnDelta

CONNECTION = httpx2.Timeout(None, connect=10.0)
"""Seconds to connect. Everything after that is bounded by the call's own timeout, which covers reading too."""


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


def _headers(request: ModelRequest) -> Mapping[str, str]:
    call = {CALL_ID_HEADER: str(request.call_id)}
    return call if request.traceparent is None else {**call, TRACEPARENT_HEADER: request.traceparent}


async def call_vendor(
    sender: Sender,
    request: ModelRequest,
    body: bytes,
    answer: WireAnswer,
    on_delta: OnDelta | None,
    *,
    vendor: Vendor,
) -> None:
    """Fill ``answer`` with what ``body``, the request as it is written, is answered. ``on_delta`` is ``None`` when no
    stream was asked for.

    Raises ``TryLater``, ``ModelRejected`` and ``ModelTimeout`` as the port promises; what ``on_delta`` raises passes.
    """
    reply: Reply | None = None
    try:
        async with asyncio.timeout(request.timeout.total_seconds()) as limit:
            reply = await sender.send(body, _headers(request))
            if reply.status >= 300:
                raise _refusal(reply, await _read_all(reply), vendor)
            if on_delta is not None and _is_stream(reply):
                await _read_events(reply, answer, on_delta)
            else:
                _take_whole(reply, await _read_all(reply), answer, on_delta)
    except TimeoutError as error:
        if not limit.expired():
            raise
        seconds = f"{request.timeout.total_seconds():g}"
        raise ModelTimeout(f"The model provider did not finish its answer within {seconds} s.") from error
    except ErrorInAnswer as error:
        raise fault_of_error(error.error, secrets=vendor.secrets, refusal=vendor.refusal) from error
    except (vendor.errors, httpx2.HTTPError) as error:
        raise _fault(error, vendor) from error
    finally:
        if reply is not None:
            await reply.let_go(finished=answer.finished)


def _is_stream(reply: Reply) -> bool:
    kind = reply.headers.get("content-type", "")
    # Some servers answer whole although asked to stream, and some call their stream text/plain.
    return "json" not in kind and "html" not in kind


async def _read_all(reply: Reply) -> bytes:
    pieces = []
    while piece := await reply.read():
        pieces.append(piece)
    return b"".join(pieces)


async def _read_events(reply: Reply, answer: WireAnswer, on_delta: OnDelta) -> None:
    events = EventStream()
    while chunk := await reply.read():
        _hear(events.feed(chunk), answer, on_delta)
        if answer.finished:
            return
    _hear(events.close(), answer, on_delta)
    if not answer.complete:
        raise broken_answer("the stream ended before its end marker")


def _hear(events: list[bytes], answer: WireAnswer, on_delta: OnDelta) -> None:
    """Take what came together, and tell it together: every piece that is told costs whoever passes it on."""
    deltas: list[Delta] = []
    try:
        for data in events:
            deltas += answer.event(data)
            if answer.finished:
                break
    finally:
        for kind, piece in deltas if len(deltas) < 2 else joined(deltas):
            on_delta(kind, piece)


def _take_whole(reply: Reply, content: bytes, answer: WireAnswer, on_delta: OnDelta | None) -> None:
    try:
        body: Any = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if "html" in reply.headers.get("content-type", "") or content.lstrip().startswith(b"<"):
            raise ModelRejected("The model provider answered with a web page: is its base_url right?") from error
        raise broken_answer("it is not JSON") from error
    if not isinstance(body, dict):
        raise broken_answer("it is not a JSON object")
    for kind, piece in answer.whole(body):
        if on_delta is not None:
            on_delta(kind, piece)


def _refusal(reply: Reply, content: bytes, vendor: Vendor) -> LucydError:
    body: Any = content.decode("utf-8", "replace").strip()
    with suppress(orjson.JSONDecodeError):
        body = orjson.loads(content)
    return fault_of_status(reply.status, body, reply.headers, secrets=vendor.secrets, refusal=vendor.refusal)


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
    if isinstance(error, httpx2.HTTPError):
        return lost_connection(error)
    # The SDKs wrap the transport's error; a connection that could not be made in time is a lost connection, too.
    return lost_connection(error.__cause__ or error)
