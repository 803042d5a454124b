"""What is printed at the end."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.checker import RULES
from tests.chaos.faults import FAULTS, Hit
from tests.chaos.history import History
from tests.chaos.violation import Violation

SHOWN_OF_A_RULE = 8


def tell(
    seed: int, seconds: float, hits: Sequence[Hit], history: History, found: Mapping[str, Sequence[Violation]]
) -> str:
    """The report as text; it names the seed, so that the same plan can be run again."""
    return "\n".join([*_faults(seed, seconds, hits), "", *_load(history), "", *_verdict(seed, found)])


def _faults(seed: int, seconds: float, hits: Sequence[Hit]) -> Iterator[str]:
    yield f"chaos, seed {seed}, {seconds:g} s of load"
    yield ""
    yield f"{'fault':<22} {'count':>5} {'missed':>6} {'runs in flight':>15}"
    for fault in FAULTS:
        came = [hit.in_flight for hit in hits if hit.fault == fault and hit.came]
        missed = sum(hit.fault == fault and not hit.came for hit in hits)
        yield f"{fault:<22} {len(came):>5} {missed:>6} {', '.join(map(str, came)) or '-':>15}"


def _load(history: History) -> Iterator[str]:
    states = Counter(run.state for run in history.runs)
    again = sum(run.attempts > 1 for run in history.runs)
    yield f"runs       {len(history.runs)} ({_counts(states)}), {again} of them with more than one attempt"
    yield f"workers    {history.fenced} fenced"
    doubt = sum(effect.state == "in_doubt" for effect in history.effects)
    yield f"effects    {len(history.effects)}, {doubt} in doubt; {sum(history.acts.values())} acts counted outside"
    connections = sum(follower.connections for follower in history.followers)
    younger = [seen for seen in history.followers if not history.wiped_between(seen.began, float("inf"))]
    yield f"clients    {len(history.answers)}; {len(history.followers)} followed in {connections} connections, "
    yield f"           {len(younger)} of them compared event by event with the stream"
    spent = sum(row.cost for row in history.costs)
    guessed = sum(row.estimated for row in history.costs)
    yield f"money      {sum(history.calls.values())} requests, {len(history.reservations)} reservations, "
    yield f"           {len(history.costs)} costs, {guessed} of them guessed, sum {spent}"


def _verdict(seed: int, found: Mapping[str, Sequence[Violation]]) -> Iterator[str]:
    if not found:
        yield f"{len(RULES)} rules hold"
        return
    yield f"VIOLATIONS with seed {seed}: {_counts({rule: len(violations) for rule, violations in found.items()})}"
    for rule, violations in found.items():
        for violation in violations[:SHOWN_OF_A_RULE]:
            yield f"  {rule}: {violation.subject}: {violation.says}"
        if len(violations) > SHOWN_OF_A_RULE:
            yield f"  {rule}: and {len(violations) - SHOWN_OF_A_RULE} more"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
