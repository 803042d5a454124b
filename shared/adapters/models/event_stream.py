"""Server-sent events, cut out of bytes as they come. Pure: no socket, no waiting.

Only ``data`` matters here: both vendors repeat the event's name inside the data.
"""


class EventStream:
    """Feed it chunks of any size; it returns the data of every event that has become whole."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that ``chunk`` completed, in order."""
        first, *lines = chunk.split(b"\n")
        self._rest.append(first)
        if not lines:
            # Kept in pieces: a line of megabytes must not be copied for each of its chunks.
            return []
        lines.insert(0, b"".join(self._rest))
        self._rest = [lines.pop()]
        return self._whole(lines)

    def close(self) -> list[bytes]:
        """What the end of the stream completes: some servers leave out the empty line after their last event."""
        last, self._rest = b"".join(self._rest), []
        return self._whole([last, b""])

    def _whole(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line[-1:] == b"\r":
                line = line[:-1]
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line[:5] == b"data:":
                data.append(line[6:] if line[5:6] == b" " else line[5:])
        return events
