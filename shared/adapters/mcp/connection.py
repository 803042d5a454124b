"""One server for as long as the process lives: connected, listed, watched, and connected again.

A session of the SDK is entered and left in one task, which is that of ``live``; calls come from any task.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import structlog
from mcp import Client
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from shared.adapters.mcp.address import open_address
from shared.adapters.mcp.faults import reason_of
from shared.adapters.mcp.journal import Journal, LineLimit
from shared.adapters.mcp.patience import Patience
from shared.adapters.mcp.program import open_program
from shared.adapters.mcp.results import answered
from shared.domain.mcp_server import McpServer, ServerCondition, ServerState
from shared.domain.mcp_tool import ListedTool, OfferedTool, offered, plain
from shared.domain.mcp_words import told
from shared.ports.mcp_servers import Answered, CallFailed

log = structlog.get_logger(__name__)

LIST_EVERY = 300.0
CHANGES_SETTLE = 0.2
LONGEST_PAUSE = 60.0
COUNTS_AS_WELL = 30.0
MOST_PAGES = 100
MOST_LISTED = 2000
_LONGEST_REASON = 500
_OVER = "Connection closed"
_ENDED = (_OVER, "SSE stream")
"""How the SDK begins to say that no answer will come; servers use the code of that for faults of their own, too."""

_RESULT: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)

# What the SDK logs may quote messages, and a failure is told here once.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class _Gone(Exception):
    """The connection is of no use any more; the message says why."""


class Connection:
    """What is known of one server, and the way to it."""

    def __init__(self, server: McpServer, *, version: str, patience: Patience) -> None:
        self.server = server
        self._patience = patience
        self._version = version
        self._condition: ServerCondition = "starting"
        self._reason = ""
        self._about = ""
        self._tools: tuple[OfferedTool, ...] = ()
        self._unfit: Mapping[str, str] = {}
        self._away_since = 0.0
        self._session: ClientSession | None = None
        self._back = asyncio.Event()
        self._look = asyncio.Event()
        self._changed = False
        self._calls = 0
        self._lines = LineLimit(server.name)
        self.tried = asyncio.Event()
        self.ending = False

    def state(self) -> ServerState:
        """How it is doing."""
        up = self._condition == "up"
        return ServerState(
            self.server.name, self._condition, self._reason, len(self._tools) if up else 0, self._unfit, self._about
        )

    def tools(self) -> Sequence[OfferedTool]:
        """What is offered now. One that was just lost keeps its tools for a while: it will be back before they are
        used, and the prompt stays the same."""
        lately = time.monotonic() - self._away_since < self._patience.offered_while_away
        return self._tools if self._condition == "up" or lately else ()

    async def live(self) -> None:
        """Be connected as long as it is possible, until cancelled with ``ending`` set before.

        A cancel that comes while a connection of the SDK is breaking down is lost in that, so it is not relied on.
        """
        pause = self._patience.first_pause
        while not self.ending:
            began = time.monotonic()
            journal = Journal(self.server, self._lines)
            try:
                await self._be_connected(journal)
                reason = ""
            except Exception as fault:  # noqa: BLE001 - whatever a server does ends its own connection only
                reason = reason_of(fault, self.server)
            finally:
                self._session = None
                self._back.clear()
            if self._condition == "up" and time.monotonic() - began > COUNTS_AS_WELL:
                pause = self._patience.first_pause
            self._is_away(journal.fault or reason or "the connection ended", journal.aside())
            self.tried.set()
            if self.ending:
                return
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spreads what many begin at once
            pause = min(pause * 2, LONGEST_PAUSE)

    async def call(self, tool: OfferedTool, arguments: Mapping[str, Any]) -> Answered:
        """Use a tool; raises ``CallFailed``."""
        session = await self._connected()
        within = self.server.call_timeout.total_seconds()
        request = CallToolRequest(params=CallToolRequestParams(name=tool.name, arguments=dict(arguments)))
        self._calls += 1
        try:
            # Not by call_tool, which holds the result against the server's own schema: whatever patterns that has.
            async with asyncio.timeout(within + 1):  # the SDK's own clock starts once the request is written
                result = await session.send_request(request, _RESULT, request_read_timeout_seconds=within)
        except MCPError as fault:
            self._look.set()
            if fault.error.message == _OVER and self._session is session:
                self._session = None  # the next call waits for a new one
                self._back.clear()
            raise CallFailed(self._why(fault, within)) from fault
        except TimeoutError as fault:
            self._look.set()
            raise CallFailed(self._too_late(within)) from fault
        except (ValidationError, ValueError, RuntimeError) as fault:
            raise CallFailed(f"The MCP server '{self.server.name}' answered with what is no result") from fault
        finally:
            self._calls -= 1
        if not isinstance(result, CallToolResult):
            raise CallFailed(f"The MCP server '{self.server.name}' asks for input in the middle of a call: nobody can")
        return answered(result, self.server)

    async def _connected(self) -> ClientSession:
        """The session; one that is just coming back is awaited for a moment."""
        if self._session is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience.back_within):
                    await self._back.wait()
        if self._session is None:
            raise CallFailed(f"The MCP server '{self.server.name}' is away: {self._reason or 'it is starting'}")
        return self._session

    def _why(self, fault: MCPError, within: float) -> str:
        name = self.server.name
        if fault.error.code == REQUEST_TIMEOUT:
            return self._too_late(within)
        if fault.error.code == CONNECTION_CLOSED and fault.error.message.startswith(_ENDED):
            return (
                f"The connection with the MCP server '{name}' ended in the middle of the call; "
                "it is not known whether it was done"
            )
        said = plain(told(fault.error.message, self.server), _LONGEST_REASON)
        return f"The MCP server '{name}' refused the call: {said}"

    def _too_late(self, within: float) -> str:
        return (
            f"The MCP server '{self.server.name}' did not answer within {within:g} s; "
            "it is not known whether it was done"
        )

    async def _be_connected(self, journal: Journal) -> None:
        """From the first word to the last. Raises whatever ended it."""
        if self.server.missing:
            raise _Gone(f"the variable {self.server.missing[0]} is not set")
        opened = open_program(self.server, journal) if self.server.command else open_address(self.server, journal)
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(self.server.start_timeout.total_seconds()):
                client = await stack.enter_async_context(
                    Client(
                        opened,
                        message_handler=self._heard,
                        client_info=Implementation(name="lucyd", version=self._version),
                        cache=None,
                    )
                )
                await stack.enter_async_context(self._hearing_of_changes(client))
                await self._list(client)
            self._is_up(client)
            await self._watch(client, journal)

    async def _watch(self, client: Client, journal: Journal) -> None:
        """Until the connection is gone: look from time to time whether it is, and at the tools when they changed."""
        ended = asyncio.ensure_future(journal.ended.wait())
        listed = time.monotonic()
        try:
            while True:
                looking = asyncio.ensure_future(self._look.wait())
                await asyncio.wait(
                    {ended, looking}, timeout=self._patience.look_every, return_when=asyncio.FIRST_COMPLETED
                )
                looking.cancel()
                if ended.done():
                    return
                self._look.clear()
                if self._changed or time.monotonic() - listed > LIST_EVERY:
                    self._changed = False
                    async with asyncio.timeout(self.server.start_timeout.total_seconds()):
                        await self._list(client)
                    self._is_up(client)
                    listed = time.monotonic()
                    await asyncio.sleep(CHANGES_SETTLE)  # one that changes all the time is not asked all the time
                elif not self._calls:  # one that is busy with a call may be unable to answer anything else
                    await self._probe(client)
        finally:
            ended.cancel()

    async def _probe(self, client: Client) -> None:
        try:
            async with asyncio.timeout(self._patience.answers_within):
                if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await client.session.send_discover(client.protocol_version)
                else:
                    await client.session.send_ping()
        except TimeoutError as fault:
            raise _Gone(f"it did not answer within {self._patience.answers_within:g} s whether it is there") from fault
        except MCPError as fault:
            if fault.error.code != METHOD_NOT_FOUND:  # who can say so is there
                raise

    async def _list(self, client: Client) -> None:
        listed: list[Tool] = []
        if client.server_capabilities.tools is not None:
            cursor: str | None = None
            for _ in range(MOST_PAGES):
                page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                listed += page.tools
                cursor = page.next_cursor
                if cursor is None or len(listed) > MOST_LISTED:
                    break
        fit, unfit = offered(self.server, [self._of(tool) for tool in listed[:MOST_LISTED]])
        self._tools, self._unfit = tuple(fit), unfit

    def _of(self, tool: Tool) -> ListedTool:
        hints = tool.annotations
        return ListedTool(
            tool.name,
            tool.description or tool.title or "",
            tool.input_schema,
            read_only=bool(hints and hints.read_only_hint),
            idempotent=bool(hints and hints.idempotent_hint),
        )

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed = True
            self._look.set()

    @contextlib.asynccontextmanager
    async def _hearing_of_changes(self, client: Client) -> AsyncIterator[None]:
        """Servers of the newest protocol tell of changes only to those that listen; that begins before the tools are
        listed, so that no change falls between."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools and tools.list_changed):
            yield
            return
        begun = asyncio.Event()
        listening = asyncio.create_task(self._listen(client, begun))
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience.answers_within):
                    await begun.wait()
            yield
        finally:
            listening.cancel()
            await asyncio.wait({listening}, timeout=self._patience.answers_within)

    async def _listen(self, client: Client, begun: asyncio.Event) -> None:
        try:
            async with client.listen(tools_list_changed=True) as changes:
                begun.set()
                async for _ in changes:
                    self._changed = True
                    self._look.set()
        except Exception as fault:  # noqa: BLE001 - changes are noticed later then, when the tools are listed again
            log.debug("mcp_changes_not_heard", server=self.server.name, error=type(fault).__name__)
        finally:
            begun.set()

    def _is_up(self, client: Client) -> None:
        info = client.server_info
        self._about = self._line(f"{info.name} {info.version}", 100) if info else ""
        if self._condition != "up":
            log.info("mcp_server_up", server=self.server.name, tools=len(self._tools), left_out=len(self._unfit))
        self._condition, self._reason = "up", ""
        self._session = client.session
        self._back.set()
        self.tried.set()

    def _is_away(self, why: str, aside: str) -> None:
        reason = self._line(f"{why} ({aside})" if aside else why, _LONGEST_REASON)
        if self._condition == "up":
            self._away_since = time.monotonic()
        if self._condition != "away":
            log.warning("mcp_server_away", server=self.server.name, reason=reason)
        self._condition, self._reason = "away", reason

    def _line(self, text: str, longest: int) -> str:
        """Words of the server on one line: what it breaks would look like lines of ours."""
        return plain(" ".join(told(text, self.server).split()), longest)
