"""Every road over Redis on one page: the keys that operators and clients rely on."""

from uuid import UUID

INBOUND = "lucyd:inbound"
"""Stream of wake-ups for workers; group ``WORKERS``, made at ``0``."""

WORKERS = "workers"

CONTROL = "lucyd:control"
"""Stream of commands that every worker reads; capped. What they say stands in Postgres."""

DEAD = "lucyd:dead"
"""Stream of runs that were given up; capped. Truth is in Postgres."""

FINISHED = "lucyd:finished"
"""Pub/sub: the id of a run whose result is there now."""

GENERATION = "lucyd:generation"
"""Marks a Redis that was filled; gone means emptied."""

MONITOR_SESSIONS = "lucyd:monitor:session:"
MONITOR_SERVICES = "lucyd:monitor:service:"
MONITOR_WORKERS = "lucyd:monitor:worker:"

INDEX_QUEUE = "lucyd-index"
CONSOLIDATE_QUEUE = "lucyd-consolidate"
MAINTAIN_QUEUE = "lucyd-maintain"

INDEX_JOB = "services.indexer.jobs.index"
CONSOLIDATE_JOB = "services.consolidator.jobs.consolidate"
MAINTAIN_JOB = "services.consolidator.jobs.maintain"


def run_channel(run: UUID) -> str:
    """Pub/sub: something was added to the run's stream."""
    return f"lucyd:run:{run}"


def run_events(run: UUID) -> str:
    """Stream of what a client sees of a run."""
    return f"lucyd:run:{run}:events"


def run_result(run: UUID) -> str:
    """The future: outcome and reply as JSON."""
    return f"lucyd:run:{run}:result"


def owner(conversation: str) -> str:
    """Worker and epoch of a conversation, for operators; code never asks it."""
    return f"lucyd:owner:{conversation}"


def outbound(channel: str) -> str:
    """Stream of wake-ups for the bridge of a channel; group of the channel's name, made at ``0``."""
    return f"lucyd:outbound:{channel}"


def rate_limit(name: str) -> str:
    """List: the times of what was done in a window that is limited."""
    return f"lucyd:ratelimit:{name}"


def monitor_session(conversation: str) -> str:
    """Hash: what the agent does in a conversation right now."""
    return MONITOR_SESSIONS + conversation


def monitor_process(service: str, process: UUID) -> str:
    """Hash: a process that lives; workers have a road of their own."""
    return f"{MONITOR_WORKERS}{process}" if service == "agent_worker" else f"{MONITOR_SERVICES}{service}:{process}"
