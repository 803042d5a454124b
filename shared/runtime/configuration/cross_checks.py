"""What a key must not say, by itself or beside another."""

from collections.abc import Iterator

from shared.runtime.configuration.mcp_servers import mcp_contradictions
from shared.runtime.configuration.sections.tools import KNOWN_TOOLS
from shared.runtime.configuration.sections.whole import Sections


def contradictions(sections: Sections) -> Iterator[str]:
    """One sentence for each value that can't hold, by itself or beside another."""
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
    known = KNOWN_TOOLS | set(sections.tools.enabled)
    for name in sections.tools.ask_first:
        of_server = name.partition("__")[0] in sections.mcp.servers
        if name not in known and not of_server:  # a guard that guards nothing must not go unnoticed
            yield f"tools.ask_first names {name!r}, which is no tool"
    yield from mcp_contradictions(sections.mcp)
    if sections.run.deadline_seconds <= 0:
        yield "run.deadline_seconds must be more than 0: every message would fail at once"
    if sections.http.callback_url and sections.http.callback_timeout <= 0:
        yield "http.callback_timeout must be more than 0 seconds where http.callback_url is set"
