"""Numbers as people read them. Whatever is not a number counts as 0, since an old gateway may leave a field out."""

from decimal import Decimal, InvalidOperation

_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}
_SMALLEST = Decimal("0.0001")


def number(value: object) -> Decimal:
    """``value`` as a finite number, 0 for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return Decimal(0)
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return Decimal(0)
    return amount if amount.is_finite() else Decimal(0)


def whole(value: object) -> int:
    """``value`` as a whole number, cut towards 0."""
    return int(number(value))


def money(value: object, currency: object = "USD") -> str:
    """An amount with four decimals; what is less than they can show, yet not free, is told as such."""
    amount, code = number(value), str(currency or "USD")
    sign = _SIGNS.get(code)
    less = ""
    if 0 < amount < _SMALLEST:
        amount, less = _SMALLEST, "<"
    digits = f"{amount:,.4f}"
    return f"{less}{sign}{digits}" if sign else f"{less}{digits} {code}"


def count(value: object) -> str:
    """A whole number with thousands set apart."""
    return f"{whole(value):,}"


def duration(seconds: float) -> str:
    """Seconds as ``12 ms``, ``1.3 s`` or ``2 min 5 s``."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def size(value: object) -> str:
    """Bytes as ``512B``, ``143K`` or ``2.1M``."""
    amount = whole(value)
    if amount < 1024:
        return f"{amount}B"
    if amount < 1024 * 1024:
        return f"{amount // 1024}K"
    return f"{amount / (1024 * 1024):.1f}M"
