"""The rules, each a pure function over a history."""

from collections.abc import Callable, Iterable, Mapping

from tests.chaos.history import History
from tests.chaos.rules import acts, inbound, money, order, runs, streams, webhooks
from tests.chaos.violation import Violation

Rule = Callable[[History], Iterable[Violation]]

RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        runs.none_lost,
        runs.none_failed,
        runs.one_outcome,
        runs.one_run_per_ask,
        runs.answered_alike,
        runs.none_crashed,
        runs.none_owned,
        runs.none_waits_long,
        inbound.inbound_drained,
        webhooks.webhooks_arrive,
        order.ordinals_whole,
        order.claims_explained,
        order.no_takeover_while_blocked,
        order.history_linear,
        order.asked_once,
        order.calls_answered,
        order.epochs_monotonic,
        order.one_worker_per_epoch,
        streams.ids_increase,
        streams.one_end,
        streams.streams_there,
        streams.streams_whole,
        streams.steps_kept,
        streams.resumed_without_gaps,
        money.requests_reserved,
        money.reservations_settled,
        money.costs_right,
        money.sums_agree,
        money.guesses_explained,
        acts.acted_at_most_once,
        acts.acts_told_truly,
        acts.doubts_explained,
        acts.repeated_under_one_key,
    )
}


def check(history: History) -> Mapping[str, tuple[Violation, ...]]:
    """Return what each rule found, only those that found something."""
    found = {name: tuple(rule(history)) for name, rule in RULES.items()}
    return {name: violations for name, violations in found.items() if violations}
