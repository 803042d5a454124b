"""Memory, searched over HTTP."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import key_of
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.memory_search import MemoryQuery, MemoryReply, memory_body, whose_memory
from services.gateway.rules.request_body import read_as
from shared.actions.search_memory import Most, search_memory
from shared.errors import LucydError
from shared.ports.memory import Memory

TAG = "memory"


@dataclass(frozen=True, slots=True)
class MemoryApi:
    """``/api/v1/memory/search``."""

    memory: Memory
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/api/v1/memory/search", self.search, "read", "what is known to a person, and stands in files",
                {200: Reply("what was found", MemoryReply)}, query=MemoryQuery, tag=TAG,
            ),
        ]  # fmt: skip

    async def search(self, request: Request) -> Response:
        """What the agent itself would find for this sender of the key."""
        try:
            asked = read_as(MemoryQuery, dict(request.query_params))
            most = Most(asked.limit, asked.limit, asked.limit, asked.limit)
            found = await search_memory(self.memory, whose_memory(key_of(request), asked.sender), asked.q, most)
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(memory_body(found))
