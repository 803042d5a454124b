"""A model as the operator configured it (``providers.d/*.toml`` or ``[models.*]``)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from shared.domain.money import Rates

ProviderType = Literal["anthropic", "openai", "offline"]
ThinkingMode = Literal["adaptive", "budgeted", "disabled"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One configured model; ``name`` is its role (``primary``, ``subagent``, ``compaction`` ...).

    ``api_key`` is the key itself, read once at the door, and is left out of ``repr``; ``api_key_env`` is the
    variable it came from.
    ``max_context_tokens`` 0 means unknown. ``slot_id`` below 0 means none (llama-server).
    """

    name: str
    provider: ProviderType
    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    max_tokens: int = 4096
    max_context_tokens: int = 0
    rates: Rates = field(default_factory=Rates)
    supports_vision: bool = True
    supports_tools: bool = True
    supports_streaming: bool = True
    cache_control: bool = False
    thinking_mode: ThinkingMode = "disabled"
    thinking_budget: int = 10_000
    thinking_effort: str | None = None
    slot_id: int = -1
    headers: Mapping[str, str] = field(default_factory=dict)
