"""Find what is to be consolidated."""

from collections.abc import Mapping
from typing import Any

import structlog

from services.consolidator.rules.watermark import unconsolidated
from shared.ports.backlog import Backlog

log = structlog.get_logger(__name__)

AT_MOST = 1000
"""Sessions looked at in one go; the ones used last come first."""

NAMED = 20
"""Sessions that are named: the report is kept in Redis for a day, however many there are."""


async def find_backlog(backlog: Backlog, *, at_least: int) -> Mapping[str, Any]:
    """Report it: the first ``sessions`` (``session``, ``from`` as an index, ``count`` of messages), ``total`` of all
    and ``messages`` in them. Nothing is drawn out of the messages and nothing is stored. Raises ``TryLater``."""
    found = []
    for line in await backlog.lines(at_least=at_least, limit=AT_MOST):
        span = unconsolidated(line, at_least=at_least)
        if span is not None:
            found.append({"session": str(line.session), "from": span.start, "count": span.count})
    messages = sum(each["count"] for each in found if isinstance(each["count"], int))
    log.info("backlog_found", sessions=len(found), messages=messages)
    return {"sessions": found[:NAMED], "total": len(found), "messages": messages}
