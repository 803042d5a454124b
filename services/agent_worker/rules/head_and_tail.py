"""The beginning and the end of a flow of bytes whose length nobody knows beforehand."""

from services.agent_worker.rules.tool_output import HEAD_SHARE


class HeadAndTail:
    """Takes any number of bytes and holds about ``limit`` of them: the first and the last.

    Never more than ``limit`` plus the length of its tail are in memory, whatever is fed.
    """

    def __init__(self, limit: int) -> None:
        self._head_size = int(limit * HEAD_SHARE)
        self._tail_size = limit - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self._length = 0

    @property
    def is_over(self) -> bool:
        """Whether bytes had to be dropped."""
        return self._length > self._head_size + self._tail_size

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._length += len(data)
        missing = self._head_size - len(self._head)
        if missing > 0:
            self._head += data[:missing]
            data = data[missing:]
        # Trimmed only when it has doubled: trimming on every feed would move the whole tail each time.
        self._tail += data[-self._tail_size :] if self._tail_size else b""
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: -self._tail_size]

    def text(self) -> str:
        """What is held, as text; foreign bytes become U+FFFD, and a marker line says how many bytes are missing."""
        if not self.is_over:
            return (bytes(self._head) + bytes(self._tail)).decode(errors="replace")
        tail = bytes(self._tail[-self._tail_size :]) if self._tail_size else b""
        cut = self._length - len(self._head) - len(tail)
        head = bytes(self._head).decode(errors="replace")
        return f"{head}\n... [{cut} bytes cut] ...\n{tail.decode(errors='replace')}"
