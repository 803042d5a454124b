"""A promise that was not kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """``subject`` names the row, stream or client; ``says`` is for whoever looks into it."""

    subject: str
    says: str
