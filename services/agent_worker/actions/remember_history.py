"""The histories that this worker has read lately, so that a claim brings only what is new."""

from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from services.agent_worker.rules.history import append_readable, summary_message
from shared.domain.chat import Message
from shared.domain.run import Claim, StoredMessage
from shared.ports.runs import Cached


@dataclass(slots=True)
class Remembered:
    """Rows ``live_from`` to the last one of a session, and the same as a model reads them."""

    session: UUID
    live_from: int
    last_ordinal: int
    rows: list[StoredMessage]
    readable: list[Message]
    size: int


class Histories:
    """Least recently used ones are forgotten when all together hold more than ``limit`` characters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[str, Remembered] = OrderedDict()
        self._size = 0

    def cached(self, conversation: str) -> Cached | None:
        """What to tell the claim."""
        held = self._held.get(conversation)
        return Cached(held.session, held.last_ordinal, held.live_from) if held else None

    def take(self, claim: Claim) -> Remembered:
        """The whole history of the claimed session. It is this caller's until ``keep`` gives it back."""
        held = self._held.pop(claim.conversation, None)
        if held is not None:
            self._size -= held.size
        if held is None or claim.history_from <= held.live_from or held.session != claim.session.id:
            readable: list[Message] = [summary_message(claim.session.summary)] if claim.session.summary else []
            held = Remembered(claim.session.id, claim.session.live_from, 0, [], readable, 0)
        for stored in claim.messages:
            held.rows.append(stored)
            append_readable(held.readable, stored.body)
            held.size += len(str(stored.body))
        held.last_ordinal = claim.session.last_ordinal
        return held

    def keep(self, conversation: str, held: Remembered) -> None:
        """Remember it for the next claim; what the run itself has said since is read again then."""
        self._held[conversation] = held
        self._size += held.size
        while self._size > self._limit and self._held:
            _, oldest = self._held.popitem(last=False)
            self._size -= oldest.size
