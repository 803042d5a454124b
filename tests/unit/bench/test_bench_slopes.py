"""What counts as growing. A soak that cries over noise is not read; one that sleeps over a leak is worth nothing."""

import math
from collections.abc import Callable
from random import Random

import pytest

from bench.slopes import Point, after, trend_of, verdict

MEGABYTE = 1e6
MINUTE = 60.0


def series(minutes: float, value: Callable[[float], float], *, noise: float = 0.0, seed: int = 1) -> list[Point]:
    """One point each 5 s."""
    chance = Random(seed)  # noqa: S311 - noise, not a secret
    return [(at * 5.0, value(at * 5.0) + chance.gauss(0, noise)) for at in range(int(minutes * 12))]


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_flat(seed: int) -> None:
    """Memory goes up and down all the time."""
    points = series(8, lambda _: 80 * MEGABYTE, noise=MEGABYTE, seed=seed)
    assert verdict(trend_of(points), tolerance=MEGABYTE) == "flat"


@pytest.mark.parametrize("seed", range(20))
def test_a_megabyte_a_minute_is_found_under_as_much_noise(seed: int) -> None:
    """In a day it would be more than a gigabyte."""
    points = series(8, lambda at: 80 * MEGABYTE + at / MINUTE * MEGABYTE, noise=MEGABYTE, seed=seed)
    trend = trend_of(points)
    assert verdict(trend, tolerance=2 * MEGABYTE) == "grows"
    assert trend.low < 60 * MEGABYTE < trend.high
    assert trend.slope == pytest.approx(60 * MEGABYTE, rel=0.2)


def test_a_leak_that_comes_in_lumps_is_found() -> None:
    """Allocators take memory by the piece."""
    points = series(10, lambda at: 80 * MEGABYTE + at // MINUTE * MEGABYTE)
    assert verdict(trend_of(points), tolerance=2 * MEGABYTE) == "grows"


def test_one_step_is_no_leak() -> None:
    """A buffer that was needed once is kept, and that is all."""
    points = series(10, lambda at: (80 + (6 if at > 250 else 0)) * MEGABYTE, noise=0.1 * MEGABYTE)
    assert verdict(trend_of(points), tolerance=2 * MEGABYTE) == "flat"


def test_a_cache_that_fills_is_no_leak() -> None:
    """What comes to rest has a bound."""
    points = series(20, lambda at: 80 * MEGABYTE + 10 * MEGABYTE * (1 - math.exp(-at / 120)), noise=0.1 * MEGABYTE)
    assert verdict(trend_of(points), tolerance=2 * MEGABYTE) == "flat"


def test_the_warm_up_is_not_looked_at() -> None:
    """Every process grows in its first minute: it imports, connects, fills its pools."""
    points = series(8, lambda at: min(at, 60.0) * MEGABYTE, noise=0.1 * MEGABYTE)
    assert after(points, warm_up=60)[0][0] == 60
    assert verdict(trend_of(after(points, warm_up=60)), tolerance=2 * MEGABYTE) == "flat"
    assert after([], warm_up=60) == []


def test_single_values_that_are_wild_do_not_bend_the_slope() -> None:
    """A big message in hand is not the state of a process."""
    points = [(at, value + (50 * MEGABYTE if index % 7 == 0 else 0)) for index, (at, value) in
              enumerate(series(8, lambda _: 80 * MEGABYTE, noise=0.2 * MEGABYTE))]  # fmt: skip
    assert abs(trend_of(points).slope) < 5 * MEGABYTE


def test_too_few_points_are_no_verdict() -> None:
    """Nothing is proven by a minute."""
    assert verdict(trend_of(series(0.5, lambda at: at)), tolerance=1) == "too short"
    with pytest.raises(ValueError, match="two points"):
        trend_of([(0, 1)])


def test_a_day_is_thinned() -> None:
    """All pairs of a day would be more than anybody can wait for."""
    trend = trend_of(series(24 * 60, lambda at: at / 3600, noise=0.1))
    assert trend.slope == pytest.approx(1, rel=0.05)
