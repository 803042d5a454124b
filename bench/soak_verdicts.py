"""Which series must be flat, which grow by nature, and the table of all. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.slopes import Point, Trend, after, trend_of, verdict
from shared.messages.routes import CONTROL

MB = 1e6


@dataclass(frozen=True, slots=True)
class Rule:
    """How series of a name are judged. The tolerance is the larger of ``least`` and a ``share`` of the first third.

    ``why`` is set for what grows by nature: it is shown for a run, and never counts as a leak. ``bound``: it may grow
    up to there, and counts as a leak beyond.
    """

    prefix: str
    least: float = 0.0
    share: float = 0.0
    why: str = ""
    bound: float = 0.0


KEPT = "kept for ever unless configured otherwise"
RULES: Sequence[Rule] = (
    Rule("rss.redis", 3 * MB, 0.05),
    Rule("rss.", 3 * MB, 0.03),
    Rule("private.postgres", 12 * MB, 0.1),
    Rule("shared.postgres", bound=100 * MB),
    Rule("pss.", 3 * MB, 0.03),
    Rule("handles.", 6, 0.1),
    Rule("threads.", 2, 0.1),
    Rule("processes.", 4, 0.1),
    Rule("connections.", 2, 0.1),
    Rule("redis.used_memory", 1 * MB, 0.1),
    Rule("redis.keys", 100, 0.15),
    Rule("redis.", 4, 0.15),
    Rule("keys.rq:job:", why="jobs and their results are kept 25 hours"),
    Rule("keys.rq:results:", why="jobs and their results are kept 25 hours"),
    Rule("keys.", 50, 0.15),
    Rule(f"stream.{CONTROL}", bound=1_200),
    Rule("stream.", 50, 0.15),
    Rule("dead.share", 0.1),
    Rule("dead.", why="swept by autovacuum, a fifth of a table at most; see dead.share"),
    Rule("table.messages", why=KEPT),
    Rule("table.sessions", why=KEPT),
    Rule("table.conversations", why=KEPT),
    Rule("table.costs", why="kept 84 months"),
    Rule("table.reservations", why="kept 7 days"),
    Rule("table.consolidation_state", why="one row a session"),
    Rule("table.", 2 * MB, 0.15),
    Rule("disk.wal", bound=600 * MB),
    Rule("disk.database", why="messages, sessions, conversations, costs"),
    Rule("disk.", 2 * MB, 0.15),
    Rule("log.", why="put aside by the launcher at 10 MB, three are kept"),
)
"""The first whose prefix fits."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A series with what became of it."""

    name: str
    trend: Trend
    verdict: str
    tolerance: float


def judge(series: Mapping[str, Sequence[Point]], *, warm_up: float, settled: bool = True) -> Sequence[Judged]:
    """All series that were not 0 throughout and have two points after the warm-up, by name.

    Not ``settled``: the warm-up was shorter than what is kept, so nothing can be said.
    """
    judged = []
    for name, points in sorted(series.items()):
        later = after(points, warm_up=warm_up)
        if len(later) < 2 or not any(value for _, value in points):
            continue
        trend, rule = trend_of(later), rule_for(name)
        tolerance = max(rule.least, rule.share * abs(trend.first_third))
        judged.append(Judged(name, trend, _verdict(trend, rule, tolerance) if settled else "too short", tolerance))
    return judged


def _verdict(trend: Trend, rule: Rule, tolerance: float) -> str:
    if rule.why:
        return "by nature"
    if rule.bound and trend.last_third <= rule.bound:
        return "bounded"
    return verdict(trend, tolerance=tolerance)


def rule_for(name: str) -> Rule:
    """How a series is judged; flat to the last byte when nothing else is said."""
    return next((rule for rule in RULES if name.startswith(rule.prefix)), Rule(name))


def table(judged: Sequence[Judged], *, runs: int, seconds: float) -> str:
    """For people. ``runs`` were done in those seconds after the warm-up."""
    lines = [
        f"{'':<40} {'first third':>12} {'last third':>12} {'slope an hour':>14} {'99 % band':>25}  verdict",
    ]
    for each in judged:
        trend = each.trend
        band = f"{_short(trend.low)} .. {_short(trend.high)}"
        said = each.verdict
        rule = rule_for(each.name)
        if said == "bounded":
            said = f"below its bound of {_short(rule.bound)}"
        elif rule.why:
            per_run = trend.slope * seconds / 3600 / max(1, runs)
            said = f"{_short(per_run)} a run: {rule.why}"
        lines.append(
            f"{each.name:<40} {_short(trend.first_third):>12} {_short(trend.last_third):>12} "
            f"{_short(trend.slope):>14} {band:>25}  {said.upper() if said == 'grows' else said}"
        )
    return "\n".join(lines)


def _short(number: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.2f}{unit}"
    return f"{number:.3g}"
