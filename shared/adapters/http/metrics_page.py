"""The page that Prometheus reads: what this process is and how it does, and what others add to it."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOLD_BY_OTHERS = frozenset({"rss_bytes", "loop_lag_ms", "pid"})
"""Vitals that ``process_*`` and the lag of the loop tell, by the names that everybody knows."""


class MetricsPage:
    """One per process. Counting costs nothing here: figures are collected when somebody asks."""

    def __init__(
        self, service: str, version: str, *, lag: Callable[[], timedelta], vitals: Callable[[], Mapping[str, str]]
    ) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self.add(_Process(service, version, lag, vitals))

    def add(self, collector: Collector) -> None:
        """Show what it collects, too."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """The page as it is now."""
        return generate_latest(self._registry)


class _Process(Collector):
    def __init__(
        self, service: str, version: str, lag: Callable[[], timedelta], vitals: Callable[[], Mapping[str, str]]
    ) -> None:
        self._service = service
        self._version = version
        self._lag = lag
        self._vitals = vitals

    def collect(self) -> Iterator[Metric]:
        """Every vital that is a number is a figure; its name is the service's and its own."""
        build = GaugeMetricFamily("lucyd_build_info", "What runs here; always 1.", labels=["service", "version"])
        build.add_metric([self._service, self._version], 1)
        yield build
        lag = self._lag().total_seconds()
        yield GaugeMetricFamily("lucyd_event_loop_lag_seconds", "The longest wait of late for a turn.", value=lag)
        for name, value in self._vitals().items():
            if name not in TOLD_BY_OTHERS and value.isdecimal():
                told = f"lucyd_{self._service}_{name}"
                yield GaugeMetricFamily(told, f"The field {name} of this process's monitor key.", value=int(value))
