"""How the processes run: ``[worker]``, ``[run]``, ``[retention]``, ``[database]``, ``[logging]``, ``[paths]`` ..."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from shared.runtime.configuration.kinds import Address, Count, Hours, Number, Positive, Seconds, Share, Variable, Weight


@dataclass(frozen=True, slots=True)
class Worker:
    """``[worker]``: what one worker process takes on: conversations (``slots``) and tools at a time.

    ``memory_mb``: with more of it in use, it takes nothing new; 0 means no limit. ``stand_back``: it leaves new work
    to older workers on the same processors while these are full.
    """

    slots: Positive = 128
    memory_mb: Count = 0
    stand_back: bool = True
    inflight_tools: Positive = 8
    drain_seconds: Seconds = 20.0
    history_cache_bytes: Count = 67_108_864


@dataclass(frozen=True, slots=True)
class Fairness:
    """``[fairness]``: the part of a worker's slots that one principal may hold, times its weight (1 if it has none)."""

    window: Share = 0.5
    weights: Mapping[str, Weight] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """``[limits]``: how many runs may be open (accepted and not ended); 0 means no limit."""

    open_runs_per_principal: Count = 2000
    open_runs: Count = 10_000


@dataclass(frozen=True, slots=True)
class Run:
    """``[run]``, in seconds. ``wait_seconds`` (how long ``/chat`` waits) follows ``agent_timeout_seconds``, 30 more."""

    deadline_seconds: Seconds = 3600.0
    result_ttl_seconds: Positive = 3600
    stream_ttl_seconds: Positive = 3600
    wait_seconds: Seconds = 630.0


@dataclass(frozen=True, slots=True)
class Retention:
    """``[retention]``: how long rows are kept; 0 days mean for ever."""

    idempotency_hours: Hours = 24
    streams_hours: Hours = 24
    events_days: Number = 30
    deliveries_days: Number = 30
    attachments_days: Number = 30
    runs_days: Number = 0


@dataclass(frozen=True, slots=True)
class Database:
    """``[database]``."""

    url_env: Variable = "LUCYD_DATABASE_URL"
    pool_min: Count = 2
    pool_max: Positive = 10


@dataclass(frozen=True, slots=True)
class Providers:
    """``[providers]``: which provider files are loaded, in this order."""

    load: tuple[str, ...] = ()
    dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Maintain:
    """``[maintain]``: the agent tidies up when its person has been away."""

    enabled: bool = False
    idle_minutes: Positive = 30


@dataclass(frozen=True, slots=True)
class AutoReset:
    """``[session.auto_reset]``: a session that was idle for so long begins anew."""

    enabled: bool = False
    idle_minutes: Positive = 60


@dataclass(frozen=True, slots=True)
class Session:
    """``[session]``."""

    auto_reset: AutoReset = field(default_factory=AutoReset)


@dataclass(frozen=True, slots=True)
class Logging:
    """``[logging]``. ``format`` empty: text on a terminal, JSON lines otherwise."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    suppress: tuple[str, ...] = ("httpx", "httpcore", "anthropic", "openai")
    format: Literal["", "text", "json"] = ""
    pii_safe: bool = True
    max_bytes: Count = 10_485_760
    backup_count: Count = 3


@dataclass(frozen=True, slots=True)
class Metering:
    """``[metering]``: the currency of reports, and for how long costs are kept."""

    currency: str = "USD"
    retention_months: Count = 84


@dataclass(frozen=True, slots=True)
class Conversion:
    """``[conversion]``: from a provider's currency into the one of ``[metering]``."""

    api_url: Address = ""
    static_rate: Number = 1.0


@dataclass(frozen=True, slots=True)
class Paths:
    """``[paths]`` of the original; ``data_dir``, else ``state_dir``, is the data directory here too."""

    data_dir: Path | None = None
    state_dir: Path | None = None
    sessions_dir: Path | None = None
    cost_db: Path | None = None
    log_file: Path | None = None


@dataclass(frozen=True, slots=True)
class ModelsRouting:
    """``[models.routing]``: which model does a task; empty means ``primary``."""

    compaction: str = ""
    consolidation: str = ""
    subagent: str = ""
