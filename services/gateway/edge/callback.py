"""The callback: one POST for each end of a run, to the address that the operator configured."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

import httpx2
import orjson

from services.gateway.rules.webhook_signature import signatures
from services.gateway.rules.webhook_verdict import Receipt
from shared.domain.trace_context import carried_on, span_of
from shared.ports.clock import Clock
from shared.ports.webhooks import Webhook

ANSWER_BYTES = 4096
"""Read of an answer at most, so that its connection can be used again; what it says does not matter."""

LAST_BYTES = timedelta(seconds=1)
AT_ONCE = 8
KEPT_FOR = 30.0


@dataclass(frozen=True, slots=True)
class Callback:
    """Where to, with which bearer token, and how long one try may take, everything included.

    ``secrets`` are those it is signed with, each of them; without any it goes out unsigned. ``agent``
    goes into each body.
    """

    url: str = field(repr=False)
    token: str | None = field(repr=False)
    timeout: timedelta
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    agent: str = ""


class HttpCourier:
    """``Courier`` of the gateway's ports. Redirects are not followed: they count as a refusal."""

    def __init__(self, callback: Callback, client: httpx2.AsyncClient, clock: Clock) -> None:
        self._callback = callback
        self._client = client
        self._clock = clock

    async def deliver(self, webhook: Webhook) -> Receipt:
        """See ``Courier.deliver``. No sentence here repeats the address or what was answered: both may be secret."""
        identifier, timestamp = str(webhook.id), int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": identifier,
            "webhook-timestamp": str(timestamp),
        }
        if trace := carried_on(webhook.traceparent, span_of(webhook.id)):
            headers["traceparent"] = trace
        if self._callback.token:
            headers["Authorization"] = f"Bearer {self._callback.token}"
        named = {"agent": self._callback.agent} if self._callback.agent else {}
        content = orjson.dumps({**webhook.body, **named}, default=str)
        if self._callback.secrets:
            headers["webhook-signature"] = signatures(identifier, timestamp, content, self._callback.secrets)
        receipt: Receipt | None = None
        try:
            async with (
                asyncio.timeout(self._callback.timeout.total_seconds()),
                self._client.stream("POST", self._callback.url, content=content, headers=headers) as answer,
            ):
                receipt = Receipt(answer.status_code, wait=_wait(answer.headers.get("Retry-After", "")))
                await _read_a_little(answer)
        except TimeoutError:
            return receipt or Receipt(None, f"no answer within {self._callback.timeout.total_seconds():g} s")
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as fault:
            return receipt or Receipt(None, f"the receiver could not be reached ({type(fault).__name__})")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as fault:
            return receipt or Receipt(None, f"the connection with the receiver broke ({type(fault).__name__})")
        return receipt


async def _read_a_little(answer: httpx2.Response) -> None:
    """What comes after the status changes nothing any more."""
    read = 0
    with contextlib.suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(LAST_BYTES.total_seconds()):
            async for piece in answer.aiter_raw():
                read += len(piece)
                if read > ANSWER_BYTES:
                    return


def _wait(retry_after: str) -> timedelta:
    return timedelta(seconds=int(retry_after)) if retry_after.isdecimal() and len(retry_after) < 8 else timedelta(0)


@contextlib.asynccontextmanager
async def open_callback(
    callback: Callback, clock: Clock, transport: httpx2.AsyncBaseTransport | None
) -> AsyncIterator[HttpCourier]:
    """A courier for as long as the block lasts; nothing is sent yet.

    It closes the transport in the end; without one the proxy that the environment names has the call.
    """
    async with httpx2.AsyncClient(
        headers={"User-Agent": "lucyd"},
        follow_redirects=False,
        timeout=httpx2.Timeout(callback.timeout.total_seconds()),
        limits=httpx2.Limits(max_connections=AT_ONCE, keepalive_expiry=KEPT_FOR),
        transport=transport,
        trust_env=transport is None,
    ) as client:
        yield HttpCourier(callback, client, clock)
