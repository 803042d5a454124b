"""What replies about records and upkeep look like, as types."""

from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime

from services.gateway.rules.reply_shapes import Named, Run, Shape


class RunsReply(Named):
    """Runs, the newest first."""

    runs: list[Run]


class CompactReply(Named):
    """What became of a compaction. ``session`` is the one it was about, ``reason`` says why it is not completed."""

    status: Literal["completed", "skipped", "failed", "running"]
    session: UUID | None = None
    run_id: UUID | None = None
    compacted: int | None = None
    reason: str | None = None


class AutoResetReply(Named):
    """How many sessions were closed that rested for ``idle_minutes``."""

    reset: bool
    count: int
    idle_minutes: int


class QueuedReply(Named):
    """The job stands in its queue."""

    status: Literal["queued"]
    job_id: str


class JobReply(Named):
    """What is known of a job; ``result`` are the figures it ended with."""

    job_id: str
    queue: str
    state: Literal["queued", "started", "finished", "failed"]
    enqueued_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    result: dict[str, Any] | None
    error: str | None


class IndexStatusReply(Named):
    """What the indexer knows. What nobody counts yet is null."""

    db_exists: bool
    indexed_files: int
    total_chunks: int
    pending_files: int | None
    stale_files: int | None
    last_read_at: AwareDatetime | None


class PluginFields(Shape):
    """A plugin. ``loaded_by`` and ``failed_in`` count workers; ``notes`` say which of its tools are not offered."""

    name: str
    configured: bool
    backend: str
    state: Literal["loaded", "failed"]
    reason: str
    tools: list[str]
    preprocessors: list[str]
    notes: list[str]
    loaded_by: int
    failed_in: int


class PluginReply(Named, PluginFields):
    """One plugin."""


class PluginsReply(Named):
    """Plugins of the workers that live."""

    plugins: list[PluginFields]
