"""What two keys must not say together."""

from collections.abc import Iterator

from shared.runtime.configuration.sections.whole import Sections


def contradictions(sections: Sections) -> Iterator[str]:
    """One sentence for each pair of values that can't both hold."""
    compaction, indexer = sections.behavior.compaction, sections.memory.indexer
    if compaction.keep_recent_pct_min > compaction.keep_recent_pct_max:
        yield (
            "behavior.compaction.keep_recent_pct_min must not be larger than keep_recent_pct_max "
            f"({compaction.keep_recent_pct_min} and {compaction.keep_recent_pct_max})"
        )
    if indexer.chunk_overlap_chars >= indexer.chunk_size_chars:
        yield (
            "memory.indexer.chunk_overlap_chars must be smaller than chunk_size_chars "
            f"({indexer.chunk_overlap_chars} and {indexer.chunk_size_chars})"
        )
    if sections.database.pool_min > sections.database.pool_max:
        yield (
            "database.pool_min must not be larger than pool_max "
            f"({sections.database.pool_min} and {sections.database.pool_max})"
        )
