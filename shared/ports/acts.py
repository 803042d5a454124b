"""What tools change in Postgres alone: the act and its result are one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Act:
    """One call of class ``local``, under the claim of its run. Its intent was stored before.

    ``name`` is one of ours and never a model's: the function ``lucyd_act_<name>`` does it.
    """

    conversation: str
    worker: UUID
    epoch: int
    run: UUID
    step: int
    call_index: int
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ActAnswer:
    """What came of it: ``text``, or the ``error`` for which nothing was changed.

    ``wake`` are conversations that have work now, ``nudge`` channels that have something to send. ``open``: it is
    done, and its result comes later; whoever brings it writes it into the call.
    """

    text: str = ""
    error: str | None = None
    wake: Sequence[str] = ()
    nudge: Sequence[str] = ()
    open: bool = False


class Acts(Protocol):
    """Carries out acts."""

    async def act(self, act: Act) -> ActAnswer:
        """Do it once, however often it is asked: a repetition is given the result that is there.

        Raises ``LostClaim``, with nothing changed, and ``TryLater``.
        """
        ...
