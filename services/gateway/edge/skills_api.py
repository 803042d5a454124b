"""Skills, as the folders have them now, and which of them fit a message."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.glance import Glance
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.request_body import read_as
from services.gateway.rules.skill_list import MatchQuery, MatchReply, SkillsReply, match_body, skills_body
from shared.domain.skill import SkillBook, fits
from shared.errors import LucydError, TryLater

TAG = "the house"
PATIENCE = timedelta(seconds=5)
"""The folders may lie on a network that hangs."""


@dataclass(frozen=True, slots=True)
class SkillsApi:
    """The routes under ``/api/v1/skills``."""

    skills: Glance[SkillBook]
    always_on: Collection[str]
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/api/v1/skills", self.list, "read", "skills, and what is skipped",
                {200: Reply("them", SkillsReply)}, tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/skills/match", self.match, "read", "which skills fit a message",
                {200: Reply("those that fit", MatchReply)}, query=MatchQuery, tag=TAG,
            ),
        ]  # fmt: skip

    async def list(self, _: Request) -> Response:
        """As a worker that looks now would have them."""
        try:
            book = await self._book()
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(skills_body(book, self.always_on))

    async def match(self, request: Request) -> Response:
        """The scores, and which would be shown in full."""
        try:
            asked = read_as(MatchQuery, dict(request.query_params))
            book = await self._book()
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(match_body(fits(book, asked.q, always_on=self.always_on)))

    async def _book(self) -> SkillBook:
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                return await self.skills.seen()
        except TimeoutError as fault:
            raise TryLater("the folders of skills do not answer") from fault
