"""How the agent behaves in a conversation: ``[behavior]``."""

from dataclasses import dataclass, field
from decimal import Decimal

from shared.runtime.configuration.kinds import Count, Money, Positive, Seconds, Share


@dataclass(frozen=True, slots=True)
class Compaction:
    """``[behavior.compaction]``: long histories are summarised.

    ``prompt`` may contain ``{agent_name}`` and ``{max_tokens}``, ``diary_prompt`` may contain ``{date}``; empty means
    the built-in text.
    """

    threshold_tokens: Positive = 150_000
    model: str = "compaction"
    prompt: str = ""
    diary_prompt: str = ""
    warning_pct: Share = 0.8
    min_messages: Count = 4
    keep_recent_pct: Share = 0.33
    keep_recent_pct_min: Share = 0.05
    keep_recent_pct_max: Share = 0.9
    max_tokens: Positive = 2048
    tool_result_max_chars: Positive = 2000
    verify_enabled: bool = True
    verify_max_turn_labels: Count = 3
    verify_grounding_threshold: Share = 0.5


@dataclass(frozen=True, slots=True)
class Behavior:
    """``[behavior]``. ``agent_timeout_seconds`` bounds one model call; ``max_cost_per_message`` 0 means no cap."""

    silent_tokens: tuple[str, ...] = ("HEARTBEAT_OK", "NO_REPLY")
    typing_indicators: bool = True
    error_message: str = "I'm having trouble right now. Please try again in a moment."
    agent_timeout_seconds: Seconds = 600.0
    max_turns_per_message: Positive = 50
    max_cost_per_message: Money = Decimal(0)
    api_retries: Count = 2
    api_retry_base_delay: Seconds = 2.0
    message_retries: Count = 2
    message_retry_base_delay: Seconds = 30.0
    debounce_ms: Count = 500
    quote_max_chars: Count = 200
    audit_truncation_limit: Count = 500
    primary_sender: str = ""
    notify_target: str = ""
    passive_notify_refs: tuple[str, ...] = ()
    telemetry_max_age: Seconds = 30.0
    max_context_for_tools: Count = 0
    thinking_concise_hint: bool = False
    queue_capacity: Positive = 1000
    queue_poll_interval: Seconds = 1.0
    sqlite_timeout: Seconds = 30.0
    compaction: Compaction = field(default_factory=Compaction)
