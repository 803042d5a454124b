"""What one connection with a server left behind: why it ended, and what the server said beside the protocol."""

import asyncio
import time
from collections import deque

import structlog

from shared.domain.mcp_server import McpServer
from shared.domain.mcp_tool import plain
from shared.domain.mcp_words import told

log = structlog.get_logger(__name__)

LONGEST_LINE = 400
LONGEST_HEARD = 16 * 1024
"""Bytes of a line that are looked at: a secret at the place where it is cut must be known as one."""

LINES_A_MINUTE = 20
MOST_RUBBISH = 1000
_LAST_WORDS = 3


class Journal:
    """Kept anew for each connection. ``ended`` is set when there is nobody any more to speak with."""

    def __init__(self, server: McpServer, lines: "LineLimit") -> None:
        self._server = server
        self._lines = lines
        self._last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        self.ended = asyncio.Event()
        self.exit_code: int | None = None
        self.status: int | None = None
        self.rubbish = 0
        self.fault = ""

    def said(self, line: bytes) -> None:
        """A line that the program wrote to its standard error, ``LONGEST_HEARD`` bytes of it at most."""
        whole = told(line.decode("utf-8", "replace"), self._server, is_cut=len(line) >= LONGEST_HEARD)
        text = plain(whole.strip(), LONGEST_LINE)
        if text:
            self._last_words.append(text)
            if self._lines.admits():
                log.info("mcp_server_said", server=self._server.name, text=text)

    def spoke_rubbish(self) -> bool:
        """A line on its standard output that is no message; true when there were too many."""
        self.rubbish += 1
        if self.rubbish == 1:
            log.warning("mcp_server_speaks_rubbish", server=self._server.name)
        if self.rubbish > MOST_RUBBISH:
            self.fault = "it writes to its standard output what is no MCP message"
        return self.rubbish > MOST_RUBBISH

    def aside(self) -> str:
        """What a person who looks for the mistake wants to know beside the fault."""
        asides = []
        if self.exit_code is not None:
            how = f"signal {-self.exit_code}" if self.exit_code < 0 else f"exit code {self.exit_code}"
            asides.append(f"its program ended with {how}")
        if self.status is not None:
            asides.append(f"HTTP status {self.status}")
        if self.rubbish and not self.fault:
            asides.append(f"lines on its standard output that are no MCP messages: {self.rubbish}")
        if self._last_words and self.exit_code is not None:
            asides.append("it said: " + " / ".join(self._last_words))
        return "; ".join(asides)


class LineLimit:
    """So many lines a minute may be logged; what is left out is counted."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._since = 0.0
        self._logged = self._left_out = 0

    def admits(self) -> bool:
        """Whether one more may be logged."""
        now = time.monotonic()
        if now - self._since > 60:
            if self._left_out:
                log.info("mcp_server_said_more", server=self._server, lines=self._left_out)
            self._since, self._logged, self._left_out = now, 0, 0
        self._logged += 1
        if self._logged > LINES_A_MINUTE:
            self._left_out += 1
        return self._logged <= LINES_A_MINUTE
