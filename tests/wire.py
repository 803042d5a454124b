"""A wire to a server that a test can cut, or hold so that nothing comes through."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

AT_ONCE = 65_536


class Wire:
    """Listens on a port of its own and carries every connection on to the server."""

    def __init__(self, url: str, usual_port: int) -> None:
        self._parts = urlsplit(url)
        self._server = (self._parts.hostname or "127.0.0.1", self._parts.port or usual_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The server's address by way of this wire."""
        login, at, _ = self._parts.netloc.rpartition("@")
        return urlunsplit(self._parts._replace(netloc=f"{login}{at}127.0.0.1:{self._listener.getsockname()[1]}"))

    def cut(self) -> None:
        """End what is open, and whatever is opened from now on."""
        self._cut = True
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Carry connections again, and what was held."""
        self._cut = False
        self._flows.set()

    def hold(self) -> None:
        """Keep every byte until ``mend``; connections stay open."""
        self._flows.clear()

    def close(self) -> None:
        """For good."""
        self.mend()
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._cut:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                self._open |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(AT_ONCE):
                self._flows.wait()
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)
        source.close()


@contextlib.contextmanager
def open_wire(url: str, usual_port: int) -> Iterator[Wire]:
    """A wire for as long as the block lasts."""
    wire = Wire(url, usual_port)
    try:
        yield wire
    finally:
        wire.close()
