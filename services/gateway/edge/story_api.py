"""The story of one run, for people who ask why."""

from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import scope_of
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.reply_shapes import Problem, StoryReply
from services.gateway.rules.run_name import PATTERN, ids_named
from services.gateway.rules.story import story
from shared.errors import BadInput, LucydError, NotFound
from shared.ports.stories import Stories

PARTS = {"id": {"type": "string", "pattern": PATTERN}}


@dataclass(frozen=True, slots=True)
class StoryApi:
    """The route ``/api/v1/runs/{id}/story``; the id may be cut short as long as it names one run."""

    stories: Stories
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What it does."""
        replies = {
            200: Reply("the story", StoryReply),
            400: Reply("not an id, or several runs begin so", Problem),
            404: Reply("no such run", Problem),
        }
        story = "what became of a message, in order"
        return [Operation("GET", "/api/v1/runs/{id}/story", self.story, "read", story, replies, parts=PARTS)]

    async def story(self, request: Request) -> Response:
        """What became of a message, in the order in which it did."""
        try:
            rows = await self.stories.rows(await self._find(request))
            if rows is None:
                raise NotFound("no such run")
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(story(rows))

    async def _find(self, request: Request) -> UUID:
        first, last = ids_named(request.path_params["id"])
        found = await self.stories.matching(first, last, scope_of(request.scope))
        if not found:
            raise NotFound("no such run")
        if len(found) > 1:
            raise BadInput(f"several runs begin so: {', '.join(map(str, found))}")
        return found[0]
