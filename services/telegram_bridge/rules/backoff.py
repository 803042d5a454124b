"""How long to wait before Telegram is asked again."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    """Grows by ``factor`` from ``initial`` to ``longest``; ``jitter`` is the share by which a wait may differ."""

    initial: timedelta
    longest: timedelta
    factor: float
    jitter: float

    def pause(self, failures: int, *, chance: float, asked: float = 0.0) -> timedelta:
        """The wait after so many failures in a row; never shorter than the ``asked`` seconds. ``chance`` is 0 to 1."""
        steps = min(max(failures - 1, 0), 64)
        seconds = min(self.initial.total_seconds() * max(self.factor, 1.0) ** steps, self.longest.total_seconds())
        seconds *= 1 + self.jitter * (2 * chance - 1)
        return timedelta(seconds=max(seconds, asked, 0.05))
