"""What the models cost, as a table."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from cli.rules.amounts import count, money, number
from cli.rules.clean_text import one_line
from cli.rules.table import Column, Table

PERIODS = ("today", "week", "all")

_COLUMNS = (
    Column("Model"),
    Column("Input", right=True),
    Column("Output", right=True),
    Column("Cache", right=True),
    Column("Cost", right=True),
)


def cost_table(report: Mapping[str, Any]) -> Table | None:
    """One row for each model and a total; ``None`` when nothing was asked in this period."""
    models: Sequence[Mapping[str, Any]] = report.get("models") or ()
    if not models:
        return None
    rows = [
        (
            one_line(each.get("model", "?"), 48),
            count(each.get("input_tokens")),
            count(each.get("output_tokens")),
            count(each.get("cache_read_tokens")),
            money(_cost(each), _currency(each)),
        )
        for each in models
    ]
    return Table(_COLUMNS, rows, total=("Total", "", "", "", _total(models)))


def _total(models: Sequence[Mapping[str, Any]]) -> str:
    """Money of different currencies is never added up."""
    sums: dict[str, Decimal] = {}
    for each in models:
        currency = _currency(each)
        sums[currency] = sums.get(currency, Decimal(0)) + _cost(each)
    return " + ".join(money(amount, currency) for currency, amount in sums.items())


def _cost(model: Mapping[str, Any]) -> Decimal:
    return number(model.get("cost", model.get("cost_usd")))


def _currency(model: Mapping[str, Any]) -> str:
    return str(model.get("currency") or "USD")
