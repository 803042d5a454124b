"""The histories that this worker has read lately, so that a claim brings only what is new."""

from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

import orjson

from services.agent_worker.rules.history import append_readable, summary_message
from shared.domain.chat import Message
from shared.domain.run import Claim, StoredMessage
from shared.ports.runs import Cached

ROW_BYTES = 800
"""What a row takes beside its text: two dictionaries, an id, their places in the lists."""


@dataclass(slots=True)
class Remembered:
    """Rows ``live_from`` to the last one of a session, and the same as a model reads them. ``size`` is bytes, about."""

    session: UUID
    live_from: int
    last_ordinal: int
    rows: list[StoredMessage]
    readable: list[Message]
    size: int

    @property
    def known(self) -> Cached:
        """What to tell the claim."""
        return Cached(self.session, self.last_ordinal, self.live_from)


class Histories:
    """Least recently used ones are forgotten when all together take more than ``limit`` bytes of memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[str, Remembered] = OrderedDict()
        self._size = 0

    def lend(self, conversation: str) -> Remembered | None:
        """What is held of a conversation. It is this caller's until ``keep`` gives it back, and can't be forgotten
        while a claim that counts on it is on its way."""
        held = self._held.pop(conversation, None)
        if held is not None:
            self._size -= held.size
        return held

    def forget(self) -> None:
        """Forget everything that is not lent: it is read again when it is needed."""
        self._held.clear()
        self._size = 0

    def keep(self, conversation: str, held: Remembered) -> None:
        """Remember it for the next claim; what the run itself has said since is read again then."""
        self._held[conversation] = held
        self._size += held.size
        while self._size > self._limit and self._held:
            _, oldest = self._held.popitem(last=False)
            self._size -= oldest.size


def whole_history(held: Remembered | None, claim: Claim) -> Remembered:
    """The history of the claimed session: what was held, where the claim goes on from there, and what it brought."""
    session = claim.session
    goes_on = (
        held is not None
        and (held.session, held.live_from) == (session.id, session.live_from)
        and claim.history_from == held.last_ordinal + 1
    )
    if held is None or not goes_on:
        readable: list[Message] = [summary_message(session.summary)] if session.summary else []
        held = Remembered(session.id, session.live_from, 0, [], readable, 0)
    for stored in claim.messages:
        add_row(held, stored)
    held.last_ordinal = session.last_ordinal
    return held


def add_row(held: Remembered, stored: StoredMessage) -> None:
    """Put a row at the end."""
    held.rows.append(stored)
    append_readable(held.readable, stored.body)
    held.size += ROW_BYTES + 2 * len(orjson.dumps(stored.body))  # its text, and what a model reads of it
