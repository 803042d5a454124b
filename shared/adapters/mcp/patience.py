"""How long a server of the Model Context Protocol is waited for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. ``look_every``: how often it is asked whether it is there, when nobody calls it; ``answers_within``: how
    long that may take; ``first_pause``: before it is connected with again; ``offered_while_away``: its tools stay in
    the prompt for so long; ``back_within``: a call waits so long for it to come back."""

    look_every: float = 30.0
    answers_within: float = 10.0
    first_pause: float = 0.5
    offered_while_away: float = 60.0
    back_within: float = 10.0
