"""The part of the configuration that the indexer needs."""

from dataclasses import dataclass, field
from pathlib import Path

from services.indexer.rules.chunking import Chunking
from shared.runtime.settings import Configuration


@dataclass(frozen=True, slots=True)
class Settings:
    """Plain values for the constructors in ``wiring``."""

    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    workspace: Path
    patterns: tuple[str, ...]
    exclude_dirs: tuple[str, ...]
    chunking: Chunking

    @classmethod
    def of(cls, configuration: Configuration) -> "Settings":
        """Take what is needed."""
        indexer = configuration.memory.indexer
        return cls(
            database_url=configuration.database_url,
            redis_url=configuration.redis_url,
            workspace=configuration.workspace,
            patterns=indexer.include_patterns,
            exclude_dirs=indexer.exclude_dirs,
            chunking=Chunking(indexer.chunk_size_chars, indexer.chunk_overlap_chars),
        )
