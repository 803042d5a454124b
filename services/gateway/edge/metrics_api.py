"""``/metrics`` for Prometheus: figures about the whole, none about anybody."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.take_stock import StockTaker
from services.gateway.edge.operation import Operation, Reply

MEDIA_TYPE = "text/plain"
TAG = "the house"

FIGURES = {
    "runs_open": ("state", "Runs that are accepted, running or waiting, in the whole house."),
    "webhooks_open": ("state", "Webhooks that are to be sent."),
    "deliveries_open": ("state", "Replies of channels that are to be sent."),
    "dead_letters": ("kind", "What was given up and waits for somebody's decision."),
    "cost_today": ("currency", "What models cost since midnight UTC."),
    "queue_depth": ("queue", "Entries of a stream or a queue of jobs in Redis that wait."),
}
"""Of the stock: the name, what it is told apart by, and what it says."""


@dataclass(frozen=True, slots=True)
class MetricsApi:
    """``page`` makes the text of what was counted; what Postgres and Redis know is asked for before, now and then."""

    page: Callable[[], bytes]
    media_type: str
    stock: StockTaker

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/metrics", self.metrics, None, "figures for Prometheus",
                {200: Reply("them, as text", media=MEDIA_TYPE)}, dialect="plain", tag=TAG,
            )
        ]  # fmt: skip

    async def metrics(self, _: Request) -> Response:
        """Answers also when Postgres or Redis does not; what it knows is left out, and ``lucyd_source_up`` tells."""
        await self.stock.refresh()
        return Response(self.page(), media_type=self.media_type)


@dataclass(frozen=True, eq=False)
class House(Collector):
    """What this gateway counts besides requests, and the stock."""

    streams: Callable[[], int]
    accepted: Mapping[str, int]
    webhooks: Mapping[str, int]
    stock: StockTaker

    def collect(self) -> Iterator[Metric]:
        """As Prometheus reads it."""
        yield GaugeMetricFamily("lucyd_http_streams_open", "Streams open on this gateway.", value=self.streams())
        accepted = CounterMetricFamily("lucyd_runs_accepted", "Runs this gateway accepted.", labels=["source"])
        for source, count in self.accepted.items():
            accepted.add_metric([source], count)
        yield accepted
        tries = CounterMetricFamily("lucyd_webhooks_tried", "Tries by what came of them.", labels=["result"])
        for result, count in self.webhooks.items():
            tries.add_metric([result], count)
        yield tries
        up = GaugeMetricFamily("lucyd_source_up", "Whether it told its figures when last asked.", labels=["source"])
        for source, is_up in self.stock.sources.items():
            up.add_metric([source], is_up)
        yield up
        yield from self._stock()

    def _stock(self) -> Iterator[Metric]:
        for name, (label, explanation) in FIGURES.items():
            family = GaugeMetricFamily(f"lucyd_{name}", explanation, labels=[label])
            for kind, value in self.stock.figures.get(name, {}).items():
                family.add_metric([kind], float(value))
            yield family
