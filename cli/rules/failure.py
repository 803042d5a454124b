"""What ends a command: one sentence for the person in front of it."""

from shared.errors import LucydError


class Failure(LucydError):
    """The command can't do what was asked; the message is one sentence and says how to go on."""


class Unreachable(Failure):
    """Nobody answers where the gateway should be."""
