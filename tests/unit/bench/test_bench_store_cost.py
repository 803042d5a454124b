"""The table of what storage costs."""

from typing import cast

import psycopg

from bench.store_cost import Cost, Meter, report


def test_figures_are_told_for_one_run_and_added_up() -> None:
    """A budget is so much for each run; who reads it wants to know which statement it goes to."""
    meter = Meter(cast("psycopg.Connection", None), 1)
    meter.costs = {"accept": Cost(10, 0.004, 0.002, 16_000), "published": Cost(1, 0.001, 0.0, 4_000)}
    meter.tables = [("runs", 10, 40, 10, 3), ("events", 20, 0, 0, 0)]
    lines = [line.split() for line in report(meter, 10).splitlines()]
    assert ["accept", "1.00", "0.400", "0.200", "1600"] in lines
    assert ["all", "1.10", "0.500", "0.200", "2000"] in lines
    assert ["runs", "1.00", "4.00", "25%", "3"] in lines
    assert ["events", "2.00", "0.00", "-", "0"] in lines
