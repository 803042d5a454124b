"""What a model call costs. Money is ``Decimal`` and is never rounded."""

from dataclasses import dataclass
from decimal import Decimal

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. The four kinds do not overlap: ``input`` excludes what went through a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def context(self) -> int:
        """How much of the context window the request filled."""
        return self.input + self.cache_read + self.cache_write

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices per million tokens in ``currency`` (``cost_per_mtok`` of a provider file)."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cache_read: Decimal = Decimal(0)
    cache_write: Decimal = Decimal(0)
    currency: str = "USD"

    @property
    def prices(self) -> tuple[Decimal, Decimal, Decimal, Decimal]:
        """Of what is read, written, read from a cache and written to it, as a bill notes them."""
        return self.input, self.output, self.cache_read, self.cache_write

    def cost(self, usage: Usage) -> Decimal:
        """Tokens times rates, exact to the last digit."""
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
        ) / MILLION

    def worst_case(self, *, context: int, output: int) -> Decimal:
        """The most that one call may cost, with ``context`` tokens in and ``output`` tokens out."""
        dearest = max(self.input, self.cache_read, self.cache_write)
        return (context * dearest + output * self.output) / MILLION
