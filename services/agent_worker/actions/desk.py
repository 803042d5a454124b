"""What lies on the desk while a message is answered: ports, and the operator's plain values."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from services.agent_worker.actions.refused_images import RefusedImages
from services.agent_worker.actions.suspects import Suspects
from services.agent_worker.actions.tell import Outlet
from services.agent_worker.ports import Preprocessors, Toolbox
from services.agent_worker.rules.prompt import ContextFiles
from services.agent_worker.rules.run_loop import Limits
from shared.domain.run import Route, Settlement
from shared.domain.skill import SkillBook
from shared.ports.acts import Acts
from shared.ports.blobs import Blobs
from shared.ports.children import Children
from shared.ports.clock import Clock
from shared.ports.model import Model
from shared.ports.prepared import PreparedMessages
from shared.ports.runs import Runs


class Pulse(Protocol):
    """When this worker was last known to be alive."""

    @property
    def age(self) -> timedelta:
        """How old the last confirmed beat is."""
        ...


class Workspace(Protocol):
    """Reads the files that make up the agent's personality and memory."""

    async def context_files(self, tier: str) -> ContextFiles:
        """The files of a context tier; those that are not there are left out."""
        ...


class Skills(Protocol):
    """Knows the skills that lie in the workspace."""

    @property
    def book(self) -> SkillBook:
        """All of them as they were last read, which is no longer ago than 2 s."""
        ...


@dataclass(frozen=True, slots=True)
class NoSkills:
    """``Skills`` of an agent that has none."""

    book: SkillBook = field(default_factory=SkillBook)


@dataclass(frozen=True, slots=True)
class SkillManner:
    """Which skills are always shown in full, and the context tiers whose messages are answered with skills."""

    always_on: Sequence[str] = ()
    tiers: frozenset[str] = frozenset({"full"})


@dataclass(frozen=True, slots=True)
class CompactionManner:
    """How sessions are compacted. ``threshold`` and ``max_tokens`` are tokens, shares are parts of one."""

    threshold: int = 150_000
    warning_share: float = 0.8
    keep_share: float = 1 / 3
    min_messages: int = 4
    max_tokens: int = 2048
    tool_result_chars: int = 2000
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Manner:
    """How messages are answered, as the operator set it.

    ``ask_first`` names tools that a person must allow each time. ``part_limit``: how long one message of a channel may
    be. ``debounce``: how long a channel's messages are gathered before they are answered as one. ``largest_image``: of
    an image with more bytes the model is only told.
    """

    agent_name: str = "Lucyd"
    silent_tokens: Sequence[str] = ()
    error_message: str = ""
    max_system_tokens: int = 0
    limits: Limits = field(default_factory=lambda: Limits(max_turns=50, max_cost=Decimal(0)))
    call_timeout: timedelta = timedelta(minutes=10)
    retries: int = 2
    retry_base: float = 2.0
    ask_first: frozenset[str] = frozenset()
    part_limit: int = 4000
    debounce: timedelta = timedelta(0)
    largest_image: int = 5_242_880
    compaction: CompactionManner = field(default_factory=CompactionManner)
    skills: SkillManner = field(default_factory=SkillManner)


@dataclass(frozen=True, slots=True)
class Preparing:
    """Who reads what comes with messages, and where that is kept."""

    preprocessors: Preprocessors
    kept: PreparedMessages


@dataclass(frozen=True, slots=True)
class Desk:
    """One per worker process. ``routes`` maps a source, or a kind of run, to its model; ``image`` is for runs
    with an image, ``model:<role>`` for children that were asked for with that role, ``*`` for the rest.

    ``suspects`` is the room for runs that processes died with; ``alone``: this process was started for one such run.
    ``owed`` are calls of attempts that were lost or left, to be booked as soon as Postgres takes them.
    """

    worker: UUID
    runs: Runs
    models: Mapping[str, Model]
    routes: Mapping[str, Route]
    toolbox: Toolbox
    workspace: Workspace
    outlet: Outlet
    acts: Acts
    children: Children
    blobs: Blobs
    clock: Clock
    pulse: Pulse
    manner: Manner
    draining: asyncio.Event
    chance: random.Random
    suspects: Suspects = field(default_factory=Suspects)
    alone: bool = False
    owed: list[Settlement] = field(default_factory=list)
    refused: RefusedImages = field(default_factory=RefusedImages)
    skills: Skills = field(default_factory=NoSkills)
    preparing: Preparing | None = None
