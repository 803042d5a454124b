"""What replies to notices and to bridges look like, as types."""

from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime

from services.gateway.rules.reply_shapes import Named, Problem


class AcceptedReply(Named):
    """It is stored, and will be read; ``run_id`` names the run that does it."""

    accepted: Literal[True]
    queued_at: AwareDatetime
    run_id: UUID


class SenderProblem(Problem):
    """Who writes is none of those that may; ``allowed`` names them."""

    allowed: list[str] | None = None
