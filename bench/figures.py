"""Figures out of samples, and the median of several runs of the same work. Pure."""

import statistics
from collections.abc import Sequence
from typing import Any

Tree = Any
"""Numbers, and mappings of names to trees."""


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that a ``share`` (0 to 1) of all do not exceed. Raises ``ValueError`` without samples."""
    if not samples:
        raise ValueError("there are no samples")
    ordered = sorted(samples)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def spread(samples: Sequence[float]) -> dict[str, float]:
    """The median, the 99th percentile and how many samples they are from."""
    return {"p50": percentile(samples, 0.5), "p99": percentile(samples, 0.99), "samples": len(samples)}


def median_tree(trees: Sequence[Tree]) -> Tree:
    """The same tree with the median of each number; a name that a tree lacks is left out of that median."""
    if not isinstance(trees[0], dict):
        return statistics.median(trees)
    names = dict.fromkeys(name for tree in trees for name in tree)
    return {name: median_tree([tree[name] for tree in trees if name in tree]) for name in names}


def rounded(tree: Tree, digits: int = 3) -> Tree:
    """The tree as it is written down."""
    if isinstance(tree, dict):
        return {name: rounded(value, digits) for name, value in tree.items()}
    return round(tree, digits) if isinstance(tree, float) else tree
