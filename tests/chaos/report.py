"""What is printed at the end."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.checker import RULES
from tests.chaos.history import History
from tests.chaos.living import Lived
from tests.chaos.plan import MANY_FROM
from tests.chaos.table import ENOUGH
from tests.chaos.violation import Violation

SHOWN_OF_A_RULE = 8
NO_FAKETIME = "libfaketime is not on this machine, so no wall clock of a whole process"


def tell(seed: int, seconds: float, lived: Lived, found: Mapping[str, Sequence[Violation]]) -> str:
    """The report as text; it names the seed, so that the same plan can be run again."""
    hits, table, history = lived.hits, lived.table, lived.history
    missed = Counter(hit.fault for hit in hits if not hit.came)
    return "\n".join(
        [
            f"chaos, seed {seed}, {seconds:g} s of load",
            "",
            f"Runs met at each boundary, few/many: with fewer than {MANY_FROM} runs in flight, and with more.",
            *table.lines(),
            "clock jump: the clock port of a worker; "
            + ("with libfaketime also the wall clock of a gateway and a worker" if lived.faketime else NO_FAKETIME),
            f"the smallest cell has {table.least}" + ("" if table.least >= ENOUGH else f"; below {ENOUGH}:"),
            *(f"  {cell}" for cell in table.low()),
            f"faults     {sum(hit.came for hit in hits)} came; found nobody to hit: {_counts(missed) or 'none'}",
            *_load(history),
            "",
            *_verdict(seed, found),
        ]
    )


def _load(history: History) -> Iterator[str]:
    states = Counter(run.state for run in history.runs)
    again = sum(run.attempts > 1 for run in history.runs)
    yield f"runs       {len(history.runs)} ({_counts(states)}), {again} of them with more than one attempt"
    yield f"workers    {len(history.deaths)} processes ended, {len(history.fenced)} workers counted as dead; " + (
        f"{_counts(Counter(each.how for each in history.blocked)) or 'none'} blocked"
    )
    doubt = sum(effect.state == "in_doubt" for effect in history.effects)
    most = max(Counter(act.key for act in history.acts).values(), default=0)
    yield f"effects    {len(history.effects)}, {doubt} in doubt"
    yield f"once       {len(history.acts)} acts counted outside, at most {most} for a key"
    again = sum(len(keys) > 1 for keys in history.stamps.values())
    yield f"idempotent {len(history.stamps)} acts, {again} of them repeated, at most " + (
        f"{max((len(set(keys)) for keys in history.stamps.values()), default=0)} key for each"
    )
    connections = sum(follower.connections for follower in history.followers)
    younger = [seen for seen in history.followers if not history.wiped_between(seen.began, float("inf"))]
    more = sum(count > 1 for count in history.posted.values())
    yield f"webhooks   {len(history.webhooks)}, {sum(history.posted.values())} posts, {more} of them posted again"
    yield f"clients    {len(history.answers)}; {len(history.followers)} followed in {connections} connections, "
    yield f"           {len(younger)} of them compared event by event with the stream"
    spent = sum(row.cost for row in history.costs)
    guessed = sum(row.estimated for row in history.costs)
    unsettled = sum(not row.settled for row in history.reservations)
    yield f"money      {sum(history.calls.values())} requests, {len(history.reservations)} reservations, "
    yield f"           {len(history.costs)} costs, sum {spent}; {unsettled} unsettled, {guessed} guessed: "
    yield f"           {_cut(history)} calls cut by a fault, {len(history.spoiled)} spoiled by the provider"


def _cut(history: History) -> int:
    last = {run.id: run.epoch for run in history.runs}
    guessed = {row.call for row in history.costs if row.estimated}
    return sum(row.call in guessed and row.epoch != last.get(row.run) for row in history.reservations)


def _verdict(seed: int, found: Mapping[str, Sequence[Violation]]) -> Iterator[str]:
    if not found:
        yield f"0 violations: {len(RULES)} rules hold"
        return
    yield f"VIOLATIONS with seed {seed}: {_counts({rule: len(violations) for rule, violations in found.items()})}"
    for rule, violations in found.items():
        for violation in violations[:SHOWN_OF_A_RULE]:
            yield f"  {rule}: {violation.subject}: {violation.says[:600]}"
        if len(violations) > SHOWN_OF_A_RULE:
            yield f"  {rule}: and {len(violations) - SHOWN_OF_A_RULE} more"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
