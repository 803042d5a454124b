"""Errors by what the reader must do. The vendor's error is always the ``__cause__``.

LucydError
 |- BadInput            the caller's mistake: tell them, nothing was changed
 |   |- Conflict        the same idempotency key came with another body
 |   `- NotFound        what was named does not exist
 |- ConfigError         the operator's mistakes, all of them at once: print and exit 1
 |- TryLater            passing: wait ``after`` and do it again
 |   `- Full            as much waits already as may: the caller is to slow down
 |- LostClaim           another owner has this conversation: stop, write nothing
 `- GiveUp              no retry can help: tell the person
     |- ModelRejected   the provider refused the request (4xx other than 429)
     `- ModelTimeout    the provider did not answer within the time of one call
"""

from collections.abc import Sequence


class LucydError(Exception):
    """Root of everything Lucyd raises on purpose."""


class BadInput(LucydError):
    """What was sent can't be taken; nothing was changed."""


class Conflict(BadInput):
    """The idempotency key is known, with another body."""


class NotFound(BadInput):
    """What was named does not exist."""


class ConfigError(LucydError):
    """Every mistake found in the configuration, one line each."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


class TryLater(LucydError):
    """A passing fault. ``after`` is how many seconds to wait at least, 0 when nobody said."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class Full(TryLater):
    """As many runs are open as may be; nothing was stored. ``of_all``: those of everybody, not of this one alone."""

    def __init__(self, message: str, *, after: float, of_all: bool = False) -> None:
        super().__init__(message, after=after)
        self.of_all = of_all


class LostClaim(LucydError):
    """The conversation has another owner or a newer epoch: stop at once and write nothing."""


class GiveUp(LucydError):
    """No retry can help; the message is fit for the person to read."""


class ModelRejected(GiveUp):
    """The provider refused the request. ``of_content``: perhaps for what it holds, and not for who asks."""

    def __init__(self, message: str, *, of_content: bool = False) -> None:
        super().__init__(message)
        self.of_content = of_content


class ModelTimeout(GiveUp):
    """The provider did not answer within the time of one call."""
