"""Telling the agent how its session stands."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from services.agent_worker.ports import SessionFigures, ToolUse
from shared.domain.effect import ToolSpec
from shared.ports.history import SessionStatus

_SPEC = ToolSpec(
    name="session_status",
    description=(
        "Show how this session stands: how full the context window is, messages, compactions, uptime, and today's "
        "cost and tokens."
    ),
    input_schema={"type": "object", "properties": {}},
    effect="read",
)


class SessionStatusTool:
    """Figures of the session that asks."""

    def __init__(self, figures: SessionFigures) -> None:
        self._figures = figures

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The figures, one to a line."""
        return _told(await self._figures.status(use.session_id))


def _told(status: SessionStatus) -> str:
    return "\n".join(
        (
            f"Context: {_context(status)}",
            f"Messages: {status.message_count}",
            f"Compactions: {status.compaction_count}",
            f"Uptime: {_duration(status.uptime)}",
            f"Today: {status.today_cost:.4f} {status.currency}, {status.today_tokens:,} tokens",
        )
    )


def _context(status: SessionStatus) -> str:
    if status.context_limit <= 0:
        return f"{status.context_tokens:,} tokens (limit unknown)"
    share = status.context_tokens / status.context_limit
    return f"{status.context_tokens:,} of {status.context_limit:,} tokens ({share:.1%})"


def _duration(uptime: timedelta) -> str:
    minutes = int(uptime.total_seconds()) // 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h {minutes} min"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
