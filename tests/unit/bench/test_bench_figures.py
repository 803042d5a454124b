"""Percentiles and medians."""

import pytest

from bench.figures import median_tree, percentile, rounded, spread


def test_percentiles_are_samples_that_were_seen() -> None:
    """No figure is reported that nobody measured."""
    samples = list(range(1, 101))
    assert percentile(samples, 0.5) == 50
    assert percentile(samples, 0.99) == 99
    assert percentile(samples, 1.0) == 100
    assert percentile([7.0], 0.99) == percentile([7.0], 0.0) == 7.0
    assert spread([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0, "samples": 3}


def test_no_samples_are_no_figure() -> None:
    """A zero would look like a very good one."""
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


def test_the_median_is_taken_of_each_number_by_itself() -> None:
    """One slow repeat must not colour anything."""
    trees = [{"a": 1, "b": {"c": 10}}, {"a": 9, "b": {"c": 30}}, {"a": 2, "b": {"c": 20}, "rare": 5}]
    assert median_tree(trees) == {"a": 2, "b": {"c": 20}, "rare": 5}


def test_what_is_written_down_is_rounded_and_else_the_same() -> None:
    """Digits that nobody measured say nothing."""
    assert rounded({"a": 1.23456, "b": 2, "c": {"d": "x"}}) == {"a": 1.235, "b": 2, "c": {"d": "x"}}
