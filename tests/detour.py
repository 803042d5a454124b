"""The internet of a test: names lead where the test says, and public addresses are served on this machine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import httpcore2


@dataclass
class FakeResolver:
    """Gives the answers for a host one after the other, the last one for ever; ``asked`` is who was looked up."""

    known: dict[str, list[Sequence[str]]]
    asked: list[str] = field(default_factory=list)

    async def addresses(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answers = self.known.get(host)
        if not answers:
            raise OSError("no such host")
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Detour(httpcore2.AsyncNetworkBackend):
    """Notes which address was called, and calls a port of this machine in its place."""

    def __init__(self, port: int, *, dead: Sequence[str] = ()) -> None:
        self.port = port
        self.called: list[tuple[str, int]] = []
        self._dead = dead
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.called.append((host, port))
        if host in self._dead:
            raise httpcore2.ConnectError("nobody is there")
        return await self._network.connect_tcp("127.0.0.1", self.port, timeout=timeout)
