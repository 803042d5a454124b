"""What was given up, without a Postgres."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from shared.ports.dead_letters import DeadKind, DeadLetter, DeadMessage, Scope


class InMemoryDeadLetters:
    """``DeadLetters`` of the ports; ``give_up`` puts something in."""

    def __init__(self) -> None:
        self.letters: dict[UUID, DeadLetter] = {}
        self._messages: dict[UUID, DeadMessage] = {}

    def give_up(self, letter: DeadLetter, message: DeadMessage | None = None) -> None:
        """From now on it is dead; a run with what it was asked."""
        self.letters[letter.id] = letter
        if message is not None:
            self._messages[letter.id] = message

    async def open(self, scope: Scope, *, limit: int = 200) -> Sequence[DeadLetter]:
        """See ``DeadLetters.open``."""
        found = [letter for letter in self.letters.values() if letter.open and scope.covers(letter.principal)]
        return sorted(found, key=lambda letter: letter.at, reverse=True)[:limit]

    async def find(self, id: UUID, scope: Scope) -> DeadLetter | None:
        """See ``DeadLetters.find``."""
        letter = self.letters.get(id)
        return letter if letter is not None and scope.covers(letter.principal) else None

    async def message(self, run: UUID) -> DeadMessage | None:
        """See ``DeadLetters.message``."""
        return self._messages.get(run)

    async def revive(self, kind: DeadKind, id: UUID) -> bool:
        """See ``DeadLetters.revive``."""
        letter = self.letters.get(id)
        if kind == "run" or letter is None or letter.kind != kind or not letter.open:
            return False
        del self.letters[id]
        return True

    async def drop(self, kind: DeadKind, id: UUID) -> bool:
        """See ``DeadLetters.drop``."""
        letter = self.letters.get(id)
        if letter is None or letter.kind != kind or not letter.open:
            return False
        self.letters[id] = replace(letter, open=False, state="dropped")
        return True
