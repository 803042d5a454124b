"""What a sub-agent gets: its tools, its model, its turns and its time. Never more than whoever asks for it has."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

SESSIONS_SPAWN = "sessions_spawn"
"""What models call the tool for it."""

DEEPEST = 3
"""How deep sub-agents may stand below the run they work for, where the operator lets them spawn at all."""

MOST_A_ROUND = 10
LONGEST = timedelta(days=366)
MOST_OPEN = 50
"""Sub-agents of one principal that have not ended, over all its conversations."""


@dataclass(frozen=True, slots=True)
class SpawnTerms:
    """What the operator allows. ``model`` is the role that is used where none is named; ``ask_first`` are tools that a
    person must allow, which a sub-agent can't ask; ``timeout`` is ``None`` where only the parent's time counts."""

    model: str
    deny: frozenset[str] = frozenset()
    ask_first: frozenset[str] = frozenset()
    max_turns: int = 50
    timeout: timedelta | None = None


class SpawnRefused(Exception):
    """The sentence that the model reads."""


def child_tools(
    asked: Sequence[str] | None, *, offered: Collection[str], scope: Collection[str] | None, terms: SpawnTerms
) -> list[str]:
    """The tools of a sub-agent, sorted: those that were asked for, or all that its parent has, without the denied ones.

    Raises ``SpawnRefused`` for a name that the parent does not have itself.
    """
    own = {name for name in offered if scope is None or name in scope}
    if asked is not None and (unknown := sorted(set(asked) - own - terms.deny)):
        names = ", ".join(f"'{name[:60]}'" for name in unknown[:5])
        raise SpawnRefused(f"Unknown tool {names}. Available tools: {', '.join(sorted(own)) or 'none'}")
    wanted = own if asked is None else own & set(asked)
    return sorted(wanted - terms.deny - terms.ask_first)


def child_model(asked: str | None, *, roles: Collection[str], terms: SpawnTerms) -> str:
    """The role whose model a sub-agent uses. Raises ``SpawnRefused`` for one that there is not."""
    role = asked or terms.model
    if role not in roles:
        raise SpawnRefused(f"Unknown model '{role[:60]}'. Available models: {', '.join(sorted(roles))}")
    return role


def child_turns(asked: int | None, *, terms: SpawnTerms) -> int:
    """How many turns it may make. Raises ``SpawnRefused``."""
    if asked is not None and asked < 1:
        raise SpawnRefused("max_turns must be at least 1")
    return terms.max_turns if asked is None else min(asked, terms.max_turns)


def child_seconds(asked: float | None, *, terms: SpawnTerms) -> float | None:
    """How long it may take; ``None``: what is left of its parent's time. Raises ``SpawnRefused``."""
    if asked is not None and not asked > 0:  # what is no number at all is not more than anything
        raise SpawnRefused("timeout must be more than 0 seconds")
    limits = [min(asked, LONGEST.total_seconds())] if asked is not None else []
    if terms.timeout is not None:
        limits.append(terms.timeout.total_seconds())
    return min(limits) if limits else None
