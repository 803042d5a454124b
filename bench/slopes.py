"""Whether a series grows: a slope that single values can't bend, its band, and the verdict. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

Point = tuple[float, float]
"""Seconds, value."""

Verdict = Literal["flat", "grows", "too short"]

SURE = 2.576
"""Standard deviations on each side: 99 of 100 series without any slope stay inside the band."""

FEWEST = 12
MOST = 400
"""Points that are compared with each other; a longer series is thinned to medians of neighbours."""


@dataclass(frozen=True, slots=True)
class Trend:
    """What a series does after the warm-up. Slopes are units an hour; ``noise`` and ``growth`` are units.

    ``growth`` is what the slope makes of the whole time; ``late`` is the same of its second half alone, made long as
    the whole: a step, or a cache that fills, shows in the first and not in the second.
    """

    first_third: float
    last_third: float
    slope: float
    low: float
    high: float
    growth: float
    late: float
    late_low: float
    noise: float
    points: int


def trend_of(points: Sequence[Point]) -> Trend:
    """The trend by Theil and Sen: the median of the slopes of all pairs. Raises ``ValueError`` for under two points."""
    if len(points) < 2:
        raise ValueError("a slope needs two points")
    slope, low, high = _slope(points)
    half = points[len(points) // 2 :]
    late, late_low, _ = _slope(half) if len(half) >= 2 else (slope, low, high)
    span = points[-1][0] - points[0][0]
    middle = statistics.median(value - slope * at for at, value in points)
    noise = 1.4826 * statistics.median(abs(value - slope * at - middle) for at, value in points)
    third = max(1, len(points) // 3)
    return Trend(
        first_third=statistics.median(value for _, value in points[:third]),
        last_third=statistics.median(value for _, value in points[-third:]),
        slope=slope * 3600,
        low=low * 3600,
        high=high * 3600,
        growth=slope * span,
        late=late * span,
        late_low=late_low * span,
        noise=noise,
        points=len(points),
    )


def verdict(trend: Trend, *, tolerance: float) -> Verdict:
    """``grows`` when it surely rises, by more than its noise and the tolerance (units), and still does at the end."""
    if trend.points < FEWEST:
        return "too short"
    least = max(tolerance, trend.noise)
    rises = trend.low > 0 and trend.growth > least and trend.last_third - trend.first_third > least / 2
    goes_on = trend.late_low > 0 and trend.late > least
    return "grows" if rises and goes_on else "flat"


def after(points: Sequence[Point], *, warm_up: float) -> Sequence[Point]:
    """The points from so many seconds after the first one on."""
    return [point for point in points if point[0] - points[0][0] >= warm_up] if points else []


def _slope(points: Sequence[Point]) -> tuple[float, float, float]:
    """Units a second, and the band that Sen gives for it."""
    chosen = _thinned(points)
    slopes = sorted((later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in combinations(chosen, 2))
    count = len(chosen)
    wide = SURE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, int((len(slopes) - wide) / 2))
    high = min(len(slopes) - 1, int((len(slopes) + wide) / 2))
    return statistics.median(slopes), slopes[low], slopes[high]


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    size = math.ceil(len(points) / MOST)
    if size == 1:
        return points
    groups = [points[begin : begin + size] for begin in range(0, len(points), size)]
    return [(statistics.median(at for at, _ in group), statistics.median(v for _, v in group)) for group in groups]
