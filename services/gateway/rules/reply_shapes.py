"""What replies look like, as types: the document of the API is made of them, and tests hold replies against them."""

from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict


class Shape(BaseModel):
    """A JSON object of a reply. What it names is there; more may come with a later version."""

    model_config = ConfigDict(extra="allow")


class Named(Shape):
    """A reply of the API; ``agent`` is the agent's name."""

    agent: str


class Problem(Shape):
    """Why it was not done, in one sentence."""

    error: str


class OpenAIFault(Shape):
    """Why it was not done, in the words of OpenAI's API."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIProblem(Shape):
    """The same, as that API wraps it."""

    error: OpenAIFault


class RunProblem(Problem):
    """The same of a run that goes on."""

    run_id: UUID


class Tokens(Shape):
    """What models have read and written for a run."""

    input: int
    output: int


class ReplyFile(Shape):
    """A file that came with a reply; ``url`` is where its bytes are, within this API, and ``data`` they themselves in
    base64, where there are few."""

    filename: str
    content_type: str
    size: int
    url: str
    data: str | None = None


class ChatReply(Named):
    """A run that has ended. ``reply`` is empty and ``error`` says why when it failed or was cancelled."""

    reply: str
    session_id: UUID | None
    run_id: UUID
    notices: list[str]
    error: str | None = None
    silent: bool | None = None
    tokens: Tokens | None = None
    cost: float | None = None
    currency: str | None = None
    model: str | None = None
    turns: int | None = None
    attachments: list[ReplyFile] | None = None


class AskedApproval(Shape):
    """A tool that wants to be allowed."""

    approval_id: UUID
    tool: str


class QuestionReply(Named):
    """A run that waits for its person: the next message of its conversation is the answer."""

    state: Literal["waiting"]
    reply: str
    run_id: UUID
    session_id: UUID
    approvals: list[AskedApproval]


class Run(Shape):
    """What is known of a run. ``parent_run_id``: the run that asked for it, of a sub-agent's."""

    run_id: UUID
    state: Literal["accepted", "running", "waiting", "done", "failed", "cancelled", "merged", "dead"]
    kind: str
    conversation: str
    parent_run_id: UUID | None
    session_id: UUID | None
    ordinal: int
    attempts: int
    accepted_at: AwareDatetime
    finished_at: AwareDatetime | None
    outcome: dict[str, Any] | None


class RunReply(Run, Named):
    """One run."""


class DecisionReply(Named):
    """What was decided."""

    run_id: UUID
    approval_id: UUID
    allowed: bool


class StoryReply(Named):
    """What became of a message, in order."""

    run_id: UUID
    conversation: str
    state: str
    times: dict[str, float | None]
    costs: list[dict[str, Any]]
    story: list[dict[str, Any]]


class Session(Shape):
    """An open session."""

    session_id: UUID
    contact: str
    conversation: str
    created_at: float
    updated_at: float
    model: str | None
    message_count: int
    compaction_count: int
    context_tokens: int
    context_pct: int
    cost_usd: float
    cost: float
    currency: str
    event_count: int
    log_files: int
    log_bytes: int


class SessionsReply(Named):
    """Open sessions, the one used last first."""

    sessions: list[Session]


class HistoryReply(Named):
    """What was said."""

    session_id: str
    events: list[dict[str, Any]]


class ResetReply(Named):
    """What was closed; ``reason`` when there was nothing."""

    reset: bool
    target: str | None = None
    type: Literal["contact", "session_id"] | None = None
    count: int | None = None
    reason: str | None = None


class StatusReply(Named):
    """How the whole is."""

    status: str
    pid: int
    uptime_seconds: int
    channel: str
    models: list[str]
    model: str
    active_sessions: int
    today_cost: float
    queue_depth: int
    running: int
    version: str
    error_counts: dict[str, int]


class CostOfModel(Shape):
    """What one model has cost."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float
    cost: float
    currency: str
    calls: int


class CostReply(Named):
    """Costs of a period."""

    period: str
    total_cost: float
    models: list[CostOfModel]
    billing_period: str | None = None
    currency: str | None = None
    records: list[dict[str, Any]] | None = None
    truncated: bool | None = None


class Turn(Shape):
    """A call of the model. ``stop_reason`` is null when its answer was lost."""

    duration_ms: int | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    stop_reason: Literal["tool_use", "end_turn"] | None
    tools: list[str]


class MonitorReply(Named):
    """What goes on: the session that moved last, and all there is beside it."""

    state: str
    turns: list[Turn] | None = None
    sessions: list[dict[str, Any]] | None = None
    services: list[dict[str, Any]] | None = None


class DeadLetter(Shape):
    """Something that was given up; never what was said."""

    id: UUID
    kind: str
    state: str
    reason: str | None
    conversation: str | None
    about: str | None
    run_id: UUID | None
    at: AwareDatetime
    attempts: int
    last_worker: UUID | None
    last_step: int | None
    retried_as: UUID | None


class DeadReply(DeadLetter, Named):
    """One that was given up."""


class DeadListReply(Named):
    """What was given up and nobody has decided about."""

    dead: list[DeadLetter]


class RetriedReply(Named):
    """It is tried once more."""

    retried: Literal[True]
    id: UUID
    kind: str
    run_id: UUID | None = None


class DroppedReply(Named):
    """It is let be."""

    dropped: Literal[True]
    id: UUID
    kind: str


class Health(Shape):
    """The process runs."""

    status: str
    service: str


class Readiness(Health):
    """Each dependency with ``ok``, or what is wrong with it."""

    checks: dict[str, str]
