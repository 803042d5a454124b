"""What the agent remembers and how it is found again: ``[memory]``."""

from dataclasses import dataclass, field
from typing import Literal

from shared.runtime.configuration.kinds import Address, Count, Number, Positive, RecallTemplate, Seconds, Share


@dataclass(frozen=True, slots=True)
class Consolidation:
    """``[memory.consolidation]``: facts and episodes are drawn out of conversations."""

    enabled: bool = False
    fact_model: str = "subagent"
    episode_model: str = "primary"
    min_messages: Count = 4
    confidence_threshold: Share = 0.6
    max_extraction_chars: Positive = 50_000


@dataclass(frozen=True, slots=True)
class Maintenance:
    """``[memory.maintenance]``."""

    enabled: bool = False
    stale_threshold_days: Count = 90
    stale_days: Count = 90


@dataclass(frozen=True, slots=True)
class Personality:
    """``[memory.recall.personality]``: what is kept first when recall must be cut, and how it reads."""

    priority_vector: int = 35
    priority_episodes: int = 25
    priority_facts: int = 15
    priority_commitments: int = 40
    fact_format: Literal["natural", "compact"] = "natural"
    show_emotional_tone: bool = True
    episode_section_header: str = "Recent conversations"
    synthesis_style: Literal["structured", "narrative", "factual"] = "structured"
    synthesis_prompt_narrative: RecallTemplate = ""
    synthesis_prompt_factual: RecallTemplate = ""


@dataclass(frozen=True, slots=True)
class Recall:
    """``[memory.recall]``. ``decay_rate`` is per day; ``max_dynamic_tokens`` 0 means no limit."""

    decay_rate: Number = 0.03
    max_facts_in_context: Count = 20
    max_dynamic_tokens: Count = 1500
    max_episodes_at_start: Count = 3
    max_episodes: Count = 3
    structured_first: bool = True
    personality: Personality = field(default_factory=Personality)


@dataclass(frozen=True, slots=True)
class Indexer:
    """``[memory.indexer]``: which workspace files are searched, and the size of the pieces in characters."""

    include_patterns: tuple[str, ...] = ("memory/*.md", "MEMORY.md")
    exclude_dirs: tuple[str, ...] = ()
    chunk_size_chars: Positive = 1600
    chunk_overlap_chars: Count = 320
    embed_batch_limit: Positive = 100


@dataclass(frozen=True, slots=True)
class Evolution:
    """``[memory.evolution]``: the agent rewrites its own files from what it lived through."""

    enabled: bool = True
    model: str = "primary"
    files: tuple[str, ...] = ("MEMORY.md", "USER.md")
    anchor_file: str = "IDENTITY.md"
    max_log_chars: Positive = 80_000
    max_facts: Count = 50
    max_episodes: Count = 20


@dataclass(frozen=True, slots=True)
class Memory:
    """``[memory]``. ``db`` names the file of the original; here memory lives in Postgres."""

    db: str = ""
    search_top_k: Positive = 10
    embedding_timeout: Seconds = 15.0
    vector_search_limit: Positive = 10_000
    fts_min_results: Count = 3
    embedding_model: str = ""
    embedding_base_url: Address = ""
    embedding_provider: str = ""
    consolidation: Consolidation = field(default_factory=Consolidation)
    maintenance: Maintenance = field(default_factory=Maintenance)
    recall: Recall = field(default_factory=Recall)
    indexer: Indexer = field(default_factory=Indexer)
    evolution: Evolution = field(default_factory=Evolution)
