"""How a person names a run: its id, or enough of its beginning."""

from uuid import UUID

from shared.errors import BadInput

SHORTEST = 8
WHOLE = 32
PATTERN = rf"^-*(?:[0-9A-Fa-f]-*){{{SHORTEST},{WHOLE}}}$"
"""The same as ``ids_named`` checks, for who reads patterns."""


def ids_named(given: str) -> tuple[UUID, UUID]:
    """The first and the last id that begin so; one and the same for a whole id. Raises ``BadInput``."""
    digits = given.replace("-", "").lower()
    if len(digits) > WHOLE or not digits.isascii() or any(digit not in "0123456789abcdef" for digit in digits):
        raise BadInput("a run is named by its id")
    if len(digits) < SHORTEST:
        raise BadInput(f"a run is named by its id, or by at least {SHORTEST} characters of its beginning")
    return UUID(digits.ljust(WHOLE, "0")), UUID(digits.ljust(WHOLE, "f"))
