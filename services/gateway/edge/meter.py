"""What requests cost, counted as they pass: one look into a dictionary and a few additions for each."""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds. An answer out of memory takes the first, a long run's the last."""

NO_ROUTE = "(none)"
"""The route of every path that there is not: whoever asks for names by the thousand makes no figures of their own."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "(other)"


class _Route:
    """Requests of one method for one route: how many ended with which status, and how long they took."""

    __slots__ = ("buckets", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0


class Meter(Collector):
    """All requests of this gateway since it was started. Everything happens in its one event loop, so nothing locks.

    Routes are told by their template and statuses by their number, so there are as many figures as the API has answers.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self._routes: dict[tuple[str, str], _Route] = {}

    def ended(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """A request has had its answer; ``route`` is ``None`` where there was nothing at its path."""
        found = self._routes.get((method, route or NO_ROUTE))
        if found is None:
            told = method if method in METHODS else OTHER
            found = self._routes.setdefault((told, route or NO_ROUTE), _Route())
        found.statuses[status] = found.statuses.get(status, 0) + 1
        found.buckets[bisect_left(BOUNDS, seconds)] += 1
        found.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """As Prometheus reads it."""
        labels = ["method", "route"]
        requests = CounterMetricFamily("lucyd_http_requests", "Requests answered.", labels=[*labels, "status"])
        durations = HistogramMetricFamily(
            "lucyd_http_request_duration_seconds", "From its head to the last byte of its answer.", labels=labels
        )
        for (method, route), found in self._routes.items():
            for status, count in found.statuses.items():
                requests.add_metric([method, route, str(status)], count)
            so_far, buckets = 0, []
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), found.buckets, strict=True):
                so_far += count
                buckets.append((bound, so_far))
            durations.add_metric([method, route], buckets, found.seconds)
        yield requests
        yield durations
        yield GaugeMetricFamily("lucyd_http_requests_in_flight", "Requests without their answer.", value=self.in_flight)
