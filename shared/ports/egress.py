"""The one way out to addresses that nobody has checked: those of a model, a message, a document or a caller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from shared.errors import LucydError

LARGEST_BODY = 50_000_000


@dataclass(frozen=True, slots=True)
class Question:
    """One request, redirects included.

    Everything has to be there ``within`` that time, from the look-up to the last byte. Of a body at most ``most_bytes``
    are taken, unpacked; the rest is left, and the answer says so. ``takes`` is asked for the type of an answer that
    went well (in lower case, ``""`` where none is told); ``None`` takes any. Headers and the content go to the origin
    of ``url`` and to no other; with ``redirects`` 0 a redirect is the answer.
    """

    url: str
    within: timedelta
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes = field(default=b"", repr=False)
    most_bytes: int = LARGEST_BODY
    takes: Callable[[str], bool] | None = None
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """What came. ``url`` is where it came from in the end, ``headers`` have their names in lower case."""

    status: int
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    is_cut: bool = False

    @property
    def content_type(self) -> str:
        """Type and subtype in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class EgressRefused(LucydError):
    """Nobody was asked, or not any further: the address, or what it redirects to, may not be. Fit to be read."""


class EgressFailed(LucydError):
    """It was allowed, and did not work out. Fit to be read.

    ``is_late``: for want of time. ``is_unsent``: there was no connection, so nobody has done anything.
    """

    def __init__(self, message: str, *, is_late: bool = False, is_unsent: bool = False) -> None:
        super().__init__(message)
        self.is_late = is_late
        self.is_unsent = is_unsent


class UnwantedContent(EgressFailed):
    """The answer is of a type that was not asked for; ``content_type`` is what it says it is."""

    def __init__(self, content_type: str) -> None:
        super().__init__(f"the answer is {content_type or 'of no told type'}")
        self.content_type = content_type


class Egress(Protocol):
    """Asks the web. Hosts and ports that its operator named are asked wherever they are, all others if public."""

    async def ask(self, question: Question) -> Answer:
        """The answer, whatever its status. Raises ``EgressRefused``, ``EgressFailed`` and ``UnwantedContent``.

        No sentence of theirs repeats the address, a header, or what was answered.
        """
        ...
