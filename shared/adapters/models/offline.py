"""The model of a fresh install: no key, no network, no cost, and yet it uses the tools it is offered."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import blake2s

from shared.adapters.models.offline_mind import think
from shared.adapters.models.token_estimate import estimated_usage
from shared.adapters.models.wire_json import to_wire
from shared.domain.chat import ToolCall
from shared.domain.provider import ModelSpec
from shared.errors import ModelTimeout
from shared.ports.model import ModelAnswer, ModelRequest, OnDelta

_WORDS_PER_PIECE = re.compile(r"(?:\S+\s*){1,4}|\s+")


class OfflineModel:
    """Answers by rules; the same conversation always gets the same answer."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec

    @property
    def spec(self) -> ModelSpec:
        """What the operator configured."""
        return self._spec

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """Answer at once, in pieces of a few words; see the port."""
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                return await self._answer(request, on_delta)
        except TimeoutError as error:
            raise ModelTimeout("The offline model did not finish in time.") from error

    async def _answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        offered = {tool.name for tool in request.tools} if self._spec.supports_tools else set()
        thought = think(request.messages, offered, role=self._spec.name)
        if self._spec.supports_streaming:
            for piece in _pieces(thought.text):
                on_delta("text", piece)
                await asyncio.sleep(0)
        calls: list[ToolCall] = [
            {"id": call_id, "name": name, "arguments": arguments}
            for call_id, (name, arguments) in zip(_call_ids(request), thought.wishes, strict=False)
        ]
        usage = estimated_usage(request, thought.text, calls)
        return ModelAnswer(thought.text, calls, "tool_use" if calls else "end_turn", usage)


@asynccontextmanager
async def open_offline(spec: ModelSpec) -> AsyncIterator[OfflineModel]:
    """The model; there is nothing to close."""
    yield OfflineModel(spec)


def _pieces(text: str) -> Iterator[str]:
    return (found[0] for found in _WORDS_PER_PIECE.finditer(text))


def _call_ids(request: ModelRequest) -> Iterator[str]:
    """Ids without chance: where in the conversation, after which message, and which of the calls."""
    answers = sum(message["role"] == "assistant" for message in request.messages)
    # Counting alone is not enough: a compaction takes messages away, and numbers would come again.
    after = blake2s(to_wire({"after": request.messages[-1:]}), digest_size=4).hexdigest()
    number = 0
    while True:
        yield f"offline_{answers}_{after}_{number}"
        number += 1
