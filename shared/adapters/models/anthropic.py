"""Models behind Anthropic's Messages API, and whatever else speaks it.

Imported only when such a model is configured: the SDK alone costs more than a second.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import anthropic
import httpx2

from shared.adapters.models.anthropic_wire import AnthropicAnswer, request_body
from shared.adapters.models.sender import Post, open_sender
from shared.adapters.models.vendor_call import CONNECTION
from shared.adapters.models.vendor_model import VendorModel
from shared.domain.provider import ModelSpec

VENDOR_URL = "https://api.anthropic.com"
"""Said explicitly, because the SDK would else read addresses from the environment, which is read once, elsewhere."""

_PLACEHOLDER_KEY = "no-key"


@asynccontextmanager
async def open_anthropic(spec: ModelSpec) -> AsyncIterator[VendorModel]:
    """The model with its own connections, closed on leaving."""
    # At DEBUG the SDK logs whole requests, and what people write never goes into a log.
    logging.getLogger("anthropic").setLevel(logging.INFO)
    async with open_sender(partial(_open_sdk, spec), configured=spec.headers) as sender:
        yield VendorModel(spec, sender, errors=anthropic.AnthropicError, write=request_body, read=AnthropicAnswer)


@asynccontextmanager
async def _open_sdk(spec: ModelSpec, http_client: httpx2.AsyncClient | None) -> AsyncIterator[Post]:
    async with anthropic.AsyncAnthropic(
        api_key=spec.api_key or _PLACEHOLDER_KEY,
        base_url=spec.base_url or VENDOR_URL,
        # Retrying is the caller's: every request there has its own reservation of money.
        max_retries=0,
        timeout=CONNECTION,
        default_headers=cast(Mapping[str, str], _headers(spec)),
        open_telemetry=False,
        http_client=http_client,
    ) as client:

        async def post(content: bytes, headers: Mapping[str, str]) -> httpx2.Response:
            response = await client.post(
                "/v1/messages",
                cast_to=httpx2.Response,
                content=content,
                options={"headers": dict(headers)},
                # Not the API's streaming but the transport's: the head of the answer says how to read the rest.
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            return cast(httpx2.Response, response)

        yield post


def _headers(spec: ModelSpec) -> Mapping[str, str | anthropic.Omit]:
    named = {name.lower() for name in spec.headers}
    headers: dict[str, str | anthropic.Omit] = dict(spec.headers)
    if spec.api_key and spec.base_url and "x-api-key" not in named:
        # The vendor reads the bearer token; servers that imitate it still look for its older header.
        headers["X-Api-Key"] = spec.api_key
    if not spec.api_key and "x-api-key" in named and "authorization" not in named:
        headers["Authorization"] = anthropic.Omit()
    return headers
