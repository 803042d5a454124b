"""Models behind OpenAI's chat completions, and the many servers that speak them.

Imported only when such a model is configured: the SDK alone costs most of a second.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import httpx2
import openai

from shared.adapters.models.openai_wire import OpenAIAnswer, request_body
from shared.adapters.models.sender import Post, open_sender
from shared.adapters.models.vendor_call import CONNECTION
from shared.adapters.models.vendor_model import VendorModel
from shared.domain.provider import ModelSpec

VENDOR_URL = "https://api.openai.com/v1"
"""Said explicitly, because the SDK would else read addresses from the environment, which is read once, elsewhere."""

_PLACEHOLDER_KEY = "no-key"
"""Local servers want no key, but the SDK wants one, and would else look for one in the environment."""


@asynccontextmanager
async def open_openai(spec: ModelSpec) -> AsyncIterator[VendorModel]:
    """The model with its own connections, closed on leaving."""
    async with open_sender(partial(_open_sdk, spec), configured=spec.headers) as sender:
        yield VendorModel(spec, sender, errors=openai.OpenAIError, write=request_body, read=OpenAIAnswer)


@asynccontextmanager
async def _open_sdk(spec: ModelSpec, http_client: httpx2.AsyncClient | None) -> AsyncIterator[Post]:
    async with openai.AsyncOpenAI(
        api_key=spec.api_key or _PLACEHOLDER_KEY,
        base_url=spec.base_url or VENDOR_URL,
        # Retrying is the caller's: every request there has its own reservation of money.
        max_retries=0,
        timeout=CONNECTION,
        default_headers=dict(spec.headers),
        http_client=http_client,
    ) as client:

        async def post(content: bytes, headers: Mapping[str, str]) -> httpx2.Response:
            response = await client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=content,
                options={"headers": dict(headers)},
                # Not the API's streaming but the transport's: the head of the answer says how to read the rest.
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            return cast(httpx2.Response, response)

        yield post
