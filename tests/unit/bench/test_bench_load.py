"""The load against a gateway that is not quite right."""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random

import orjson
import pytest

from bench.cells import conversations_for
from bench.load import RUNS_PER_CONVERSATION, Gate, Tokens, closed_loop, followed, open_loop
from bench.wire import PIECE_ENDS, find_mark, reply_text

Behave = Callable[[int, str], bytes | None]
"""What the gateway's answer is, by the number of the request and its token; None hangs up."""


def right(number: int, token: str) -> bytes:
    return _json({"reply": reply_text(token), "run_id": f"run-{number}"})


def _json(value: object, status: int = 200) -> bytes:
    body = orjson.dumps(value)
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


class Gateway:
    """It remembers who said what."""

    def __init__(self, behave: Behave) -> None:
        self.behave = behave
        self.senders: list[str] = []
        self.at_once = self.most_at_once = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"authorization: Bearer secret" in head
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                mark = find_mark(body)
                assert mark is not None
                self.senders.append(orjson.loads(body)["sender"])
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                await asyncio.sleep(0.001)
                self.at_once -= 1
                answer = self.behave(len(self.senders), mark.token)
                if answer is None:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def gateway() -> AsyncIterator[tuple[Gateway, Gate]]:
    """One that behaves, for the beginning."""
    behaving = Gateway(right)
    server = await asyncio.start_server(behaving, "127.0.0.1", 0)
    yield behaving, Gate(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "secret")
    server.close()
    await server.wait_closed()


def names(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


async def test_a_closed_loop_does_its_work_and_no_more(gateway: tuple[Gateway, Gate]) -> None:
    """Work is fixed; no conversation is used longer than its history may grow, and none by two at once."""
    behaving, gate = gateway
    senders = names(conversations_for(4, 50))
    tally = await closed_loop(gate, senders, sessions=4, runs=50, latency_ms=0, tokens=Tokens())
    assert tally.wrong == []
    assert len(tally.asks) == len(behaving.senders) == len({ask.token for ask in tally.asks}) == 50
    assert max(map(behaving.senders.count, senders)) == RUNS_PER_CONVERSATION
    assert behaving.most_at_once <= 4
    assert tally.seconds > 0


@pytest.mark.parametrize(
    "fault",
    [
        lambda number, token: _json({"reply": reply_text(token)[:-1], "run_id": "r"}),
        lambda number, token: _json({"reply": reply_text("f" * 12), "run_id": "r"}),
        lambda number, token: _json({"reply": "", "error": "no model", "run_id": "r"}),
        lambda number, token: _json({"error": "full"}, 503),
        lambda number, token: None,
    ],
)
async def test_one_wrong_reply_is_seen(gateway: tuple[Gateway, Gate], fault: Behave) -> None:
    """A figure of work that was not done is worth nothing."""
    behaving, gate = gateway
    behaving.behave = lambda number, token: fault(number, token) if number == 7 else right(number, token)
    tally = await closed_loop(gate, names(9), sessions=1, runs=8, latency_ms=0, tokens=Tokens())
    assert 1 <= len(tally.wrong) <= 2  # who is hung up on has no line for what follows
    assert len(tally.asks) + len(tally.wrong) == 8


async def test_an_open_loop_counts_from_the_moment_a_message_was_due(gateway: tuple[Gateway, Gate]) -> None:
    """Else a system that can't keep up would slow its own load down and look quick."""
    _, gate = gateway
    tally = await open_loop(
        gate,
        names(60),
        sessions=1,
        runs=40,
        rate=5000,
        latency_ms=0,
        tokens=Tokens(),
        chance=Random(1),  # noqa: S311 - the same each time
    )
    assert tally.wrong == []
    assert len(tally.asks) == 40
    waits = [ask.sent - ask.due for ask in tally.asks]
    assert all(wait >= 0 for wait in waits)
    assert waits[-1] > waits[0] + 10_000_000


async def test_a_stream_is_checked_and_its_pieces_are_timed(gateway: tuple[Gateway, Gate]) -> None:
    """Pieces may come together, as they do after a flush of several."""
    behaving, gate = gateway

    def streamed(number: int, token: str) -> bytes:
        said, cut = reply_text(token), PIECE_ENDS[3]
        events = [
            ("accepted", {"run_id": "r", "conversation": "c"}),
            ("delta", {"text": said[:cut]}),
            ("delta", {"text": said[cut:] if number != 2 else "what nobody said"}),
            ("done", {"reply": said}),
        ]
        frames = [f"id: 1\nevent: {kind}\ndata: {orjson.dumps(data).decode()}\n\n".encode() for kind, data in events]
        body = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames)
        return b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n" + body + b"0\r\n\r\n"

    behaving.behave = streamed
    tally, seen = await followed(gate, names(9), sessions=1, runs=3, latency_ms=0, tokens=Tokens())
    assert [len(tally.asks), len(tally.wrong)] == [2, 1]
    assert [len(moments) for moments in seen.values()][::2] == [len(PIECE_ENDS)] * 2
