"""Have texts embedded for a client, and book what that costs."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

import structlog

from services.gateway.ports import Ledger
from shared.domain.money import Usage
from shared.domain.run import Settlement
from shared.domain.trace_context import carried_on, span_of
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.clock import Clock
from shared.ports.embedder import Embedded, Embedder, EmbeddingRequest, Piece

log = structlog.get_logger(__name__)

MOST_OWED = 1000
BOOKED_WITHIN = timedelta(seconds=1)
"""While a client waits."""

PAY_EVERY = timedelta(seconds=5)


class Embedding:
    """Asks the embedder, once for each request. Who could not book while Postgres was away books it later; of more
    than ``MOST_OWED`` such calls the oldest are only in the log."""

    def __init__(self, embedder: Embedder, ledger: Ledger, clock: Clock, *, timeout: timedelta) -> None:
        self._embedder = embedder
        self._ledger = ledger
        self._clock = clock
        self._timeout = timeout
        self._owed: deque[Settlement] = deque()

    @property
    def model(self) -> str:
        """Its name at the provider."""
        return self._embedder.spec.model

    async def embed(
        self, pieces: Sequence[Piece], *, principal: str, dimensions: int | None, traceparent: str | None
    ) -> Embedded:
        """A vector for each. Raises what ``Embedder.embed`` raises."""
        call_id, started = new_id(), self._clock.monotonic()
        trace = carried_on(traceparent, span_of(call_id))
        embedded = await self._embedder.embed(EmbeddingRequest(call_id, pieces, self._timeout, dimensions, trace))
        spec, usage = self._embedder.spec, Usage(input=embedded.tokens)
        rates = spec.rates
        self._owed.append(
            Settlement(
                call_id=call_id,
                run=None,
                conversation=None,
                session=None,
                principal=principal,
                call_type="embedding",
                provider=spec.provider,
                model=spec.model,
                usage=usage,
                rates=rates.prices,
                cost=rates.cost(usage),
                currency=rates.currency,
                latency=timedelta(seconds=self._clock.monotonic() - started),
            )
        )
        with contextlib.suppress(TimeoutError):  # then ``watch`` does it
            async with asyncio.timeout(BOOKED_WITHIN.total_seconds()):
                await self.pay()
        return embedded

    async def pay(self) -> None:
        """Book what is owed, as far as that is possible now."""
        while self._owed:
            settlement = self._owed[0]
            try:
                await self._ledger.settle(settlement)  # twice is once: it goes by the call's id
            except TryLater as fault:
                log.warning("embedding_not_booked", owed=len(self._owed), reason=str(fault))
                break
            if self._owed and self._owed[0] is settlement:
                self._owed.popleft()
        while len(self._owed) > MOST_OWED:
            lost = self._owed.popleft()
            log.error("embedding_never_booked", call=str(lost.call_id), tokens=lost.usage.input, cost=str(lost.cost))

    async def watch(self) -> None:
        """Pay every few seconds, until cancelled."""
        while True:
            await self._clock.sleep(PAY_EVERY.total_seconds())
            await self.pay()
