"""The kinds of value a key may have: a type, and what is asked of the value beyond its type.

Each rule says its own half of the sentence that the operator reads: ``http.port must be a whole number`` comes from the
type, `` from 1 to 65535`` from the rule.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Rule(Protocol):
    """What is asked of a value that has the right type already."""

    @property
    def phrase(self) -> str:
        """The half sentence that follows the type."""
        ...

    def allows(self, value: Any) -> bool:
        """Whether the value is good."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """A number from ``low`` to ``high``, both included; without ``high`` there is no upper end."""

    low: float
    high: float | None = None

    @property
    def phrase(self) -> str:
        """From where to where."""
        return f", {self.low} or more" if self.high is None else f" from {self.low} to {self.high}"

    def allows(self, value: Any) -> bool:
        """Whether it lies between."""
        return bool(value >= self.low and (self.high is None or value <= self.high))


@dataclass(frozen=True, slots=True)
class AboveZero:
    """A number that is more than nothing, however little."""

    phrase: str = ", more than 0"

    def allows(self, value: float) -> bool:
        """Whether there is anything."""
        return value > 0


@dataclass(frozen=True, slots=True)
class Descending:
    """A list in which each number is smaller than the one before."""

    phrase: str = ", at least one, each smaller than the one before"

    def allows(self, value: Sequence[int]) -> bool:
        """Whether it falls all the way."""
        return bool(value) and all(left > right for left, right in pairwise(value))


@dataclass(frozen=True, slots=True)
class VariableName:
    """The name of an environment variable, or nothing. Catches a secret that was pasted where its name belongs."""

    phrase: str = " that names an environment variable (the secret itself belongs into .env)"

    def allows(self, value: str) -> bool:
        """Whether it can be a name."""
        return not value or _VARIABLE.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class NotBlank:
    """Text with something in it."""

    phrase: str = " that is not empty"

    def allows(self, value: str) -> bool:
        """Whether there is something to read."""
        return bool(value.strip())


@dataclass(frozen=True, slots=True)
class Containing:
    """A template that must name a placeholder."""

    placeholder: str

    @property
    def phrase(self) -> str:
        """Which placeholder."""
        return f" that contains {self.placeholder}"

    def allows(self, value: str) -> bool:
        """Whether it is in there; an empty template means the built-in one."""
        return not value or self.placeholder in value


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http or https address, or nothing."""

    phrase: str = " that is empty or begins with http:// or https:// and names a host, and a port up to 65535 if any"

    def allows(self, value: str) -> bool:
        """Whether it can be called."""
        if not value:
            return True
        try:
            parts = urlsplit(value)
            host, is_port = parts.hostname or "", parts.port != 0
        except ValueError:
            return False
        return parts.scheme in {"http", "https"} and bool(host) and is_port and " " not in host


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A name of the IANA time zone database."""

    phrase: str = ' that names a time zone, such as "Europe/Vienna" or "UTC"'

    def allows(self, value: str) -> bool:
        """Whether this machine knows the zone."""
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return value == "UTC"
        return True


Port = Annotated[int, Range(1, 65535)]
PortOrNone = Annotated[int, Range(0, 65535)]
Count = Annotated[int, Range(0)]
Positive = Annotated[int, Range(1)]
Seconds = Annotated[float, Range(0)]
Number = Annotated[float, Range(0)]
Hours = Annotated[float, AboveZero()]
Share = Annotated[float, Range(0, 1)]
Weight = Annotated[float, Range(0.01, 100)]
Money = Annotated[Decimal, Range(0)]
Name = Annotated[str, NotBlank()]
Variable = Annotated[str, VariableName()]
Address = Annotated[str, WebAddress()]
Zone = Annotated[str, TimeZone()]
QualitySteps = Annotated[tuple[Annotated[int, Range(1, 100)], ...], Descending()]
RecallTemplate = Annotated[str, Containing("{recall_text}")]
