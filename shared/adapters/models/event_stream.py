"""Server-sent events, cut out of bytes as they come. Pure: no socket, no waiting.

Only ``data`` matters here: both vendors repeat the event's name inside the data.
"""


class EventStream:
    """Feed it chunks of any size; it returns the data of every event that has become whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that ``chunk`` completed, in order."""
        lines = (self._rest + chunk).split(b"\n") if self._rest else chunk.split(b"\n")
        self._rest = lines.pop()
        events: list[bytes] = []
        for line in lines:
            self._line(line, events)
        return events

    def close(self) -> list[bytes]:
        """What the end of the stream completes: some servers leave out the empty line after their last event."""
        events: list[bytes] = []
        self._line(self._rest, events)
        self._rest = b""
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[bytes]) -> None:
        line = line.removesuffix(b"\r")
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
