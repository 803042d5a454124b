"""Money is exact."""

from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.money import Rates, Usage

prices = st.decimals(min_value=0, max_value=10_000, places=6)
tokens = st.integers(min_value=0, max_value=10**9)
rates = st.builds(Rates, prices, prices, prices, prices)
usages = st.builds(Usage, tokens, tokens, tokens, tokens)


def _exact(rates: Rates, usage: Usage) -> Fraction:
    pairs = (
        (usage.input, rates.input),
        (usage.output, rates.output),
        (usage.cache_read, rates.cache_read),
        (usage.cache_write, rates.cache_write),
    )
    return sum((count * Fraction(price) for count, price in pairs), Fraction(0)) / 1_000_000


@given(rates, usages)
def test_a_cost_is_exact_to_the_last_digit(rates: Rates, usage: Usage) -> None:
    """Sums over a year must match the bill."""
    assert Fraction(rates.cost(usage)) == _exact(rates, usage)


@given(rates, usages, usages)
def test_costs_add_up(rates: Rates, one: Usage, other: Usage) -> None:
    """A run costs what its calls cost."""
    assert rates.cost(one + other) == rates.cost(one) + rates.cost(other)


@given(rates, usages)
def test_no_call_costs_more_than_the_worst_case(rates: Rates, usage: Usage) -> None:
    """What is set aside covers what may be billed, however the context is split."""
    assert rates.cost(usage) <= rates.worst_case(context=usage.context, output=usage.output)


def test_a_cost_by_hand() -> None:
    """The four kinds of tokens have four prices."""
    rates = Rates(Decimal(3), Decimal(15), Decimal("0.30"), Decimal("3.75"))
    assert rates.cost(Usage(1_000_000, 0, 0, 0)) == 3
    assert rates.cost(Usage(0, 1, 0, 0)) == Decimal("0.000015")
    assert rates.cost(Usage(0, 0, 10, 0)) == Decimal("0.000003")
    assert rates.cost(Usage(0, 0, 0, 100)) == Decimal("0.000375")
    assert rates.worst_case(context=1_000_000, output=0) == Decimal("3.75")
