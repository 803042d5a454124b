"""Every request was reserved, every reservation is settled, and the sums agree."""

from collections.abc import Iterator
from decimal import Decimal

from tests.chaos.history import History
from tests.chaos.violation import Violation


def requests_reserved(history: History) -> Iterator[Violation]:
    """Each request to the provider has a reservation, and none was sent twice under one id."""
    reserved = {row.call for row in history.reservations}
    for call, count in history.calls.items():
        if call not in reserved:
            yield Violation(call or "(no call id)", "the provider was asked without a reservation")
        if count != 1:
            yield Violation(call, f"the provider was asked {count} times under one call id")


def reservations_settled(history: History) -> Iterator[Violation]:
    """When all is quiet no call is open, and each has its row of costs."""
    paid = {row.call for row in history.costs}
    for row in history.reservations:
        asked = "asked" if row.call in history.calls else "never asked"
        if not row.settled:
            yield Violation(row.call, f"not settled ({asked}, run {row.run})")
        elif row.call not in paid:
            yield Violation(row.call, f"settled without a row of costs ({asked})")
    reserved = {row.call for row in history.reservations}
    for call in sorted(paid - reserved):
        yield Violation(call, "paid without a reservation")


def costs_right(history: History) -> Iterator[Violation]:
    """A cost is tokens times rates, and the tokens are the provider's; a guess is the worst case and never too low."""
    worst = {row.call: row.worst_case for row in history.reservations}
    known = next((row for row in history.costs if not row.estimated), None)  # one model: its rates; guesses have none
    for row in history.costs:
        billed = history.billed.get(row.call)
        if not row.estimated and row.cost != row.price_of(row.tokens):
            yield Violation(row.call, f"costs {row.cost}, its tokens {row.price_of(row.tokens)}")
        elif not row.estimated and billed is not None and billed != row.tokens:
            yield Violation(row.call, f"booked {row.tokens} tokens, the provider counted {billed}")
        elif row.estimated and billed is not None and known is not None and row.cost < known.price_of(billed):
            yield Violation(row.call, f"guessed {row.cost}, the provider billed {known.price_of(billed)}")
        elif row.cost > worst.get(row.call, row.cost):
            yield Violation(row.call, f"costs {row.cost}, more than the worst case {worst[row.call]}")


def sums_agree(history: History) -> Iterator[Violation]:
    """The sum of all costs is the sum of the settled calls."""
    cost = {row.call: row.cost for row in history.costs}
    settled = sum((cost.get(row.call, Decimal(0)) for row in history.reservations if row.settled), Decimal(0))
    booked = sum(cost.values(), Decimal(0))
    if settled != booked:
        yield Violation("costs", f"{booked} were booked, {settled} were settled")


def guesses_explained(history: History) -> Iterator[Violation]:
    """A call is booked as a guess only if its attempt was cut, or the provider spoiled it on purpose.

    Or if it never came to the provider: a connection that was kept breaks when the provider hangs up just then, and
    the attempt asks again under another id. That guess is nothing.
    """
    last = {run.id: run.epoch for run in history.runs}
    reserved = {row.call: row for row in history.reservations}
    for row in history.costs:
        call = reserved.get(row.call)
        if row.call in history.spoiled or (row.call not in history.calls and not row.cost):
            continue
        if row.estimated and call is not None and call.epoch == last.get(call.run):
            yield Violation(
                row.call, f"is booked as a guess, though the attempt that made it went to its end ({call.run})"
            )
