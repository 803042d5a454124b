"""The nightly look at the store."""

from collections.abc import Mapping
from typing import Any

import structlog

from services.consolidator.ports import Figures

log = structlog.get_logger(__name__)


async def maintain_store(figures: Figures) -> Mapping[str, Any]:
    """Refresh statistics, then count; ``analyzed`` names the tables, the rest is as ``Figures.counts`` has it."""
    analyzed = await figures.analyze()
    counts = await figures.counts()
    log.info("store_maintained", **counts)
    return {**counts, "analyzed": list(analyzed)}
