"""The soak: its model's moods, and what it says of series."""

import asyncio

import pytest

from bench.soak_model import MOODS, SoakModel, find_mood, mood_text
from bench.soak_verdicts import Judged, judge, table
from bench.wire import reply_text

MB = 1e6
TOKEN = "0123456789ab"


def body_of(mood: str, token: str = TOKEN) -> bytes:
    """A request whose history holds another mood."""
    return (
        f'{{"messages": ["[[bench 000000000001 00000 00000]] [[soak 500]] x", '
        f'"[[bench {token} 00000 00000]] {mood_text(mood)} y"]}}'
    ).encode()


def test_the_last_message_chooses_the_mood() -> None:
    """The history is full of moods that had their time."""
    assert [find_mood(body_of(mood)) for mood in MOODS] == list(MOODS)
    assert find_mood(b'{"messages": ["[[bench 0123456789ab 00000 00000]] nothing"]}') == "plain"
    assert find_mood(b"{}") == "plain"
    with pytest.raises(ValueError, match="not a mood"):
        mood_text("sad")


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bytes:
    """One request, and all that comes back within a moment."""
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    heard = b""
    while not heard.endswith((b"0\r\n\r\n", b"}")):
        piece = await asyncio.wait_for(reader.read(65_536), 5)
        if not piece:
            break
        heard += piece
    return heard


@pytest.mark.parametrize(
    ("mood", "sign"),
    [("exec", b'"exec"'), ("429", b"429 Too Many"), ("500", b"500 Internal"), ("cut", b"This sentence has no")],
)
async def test_each_mood_comes_once_and_then_the_reply(mood: str, sign: bytes) -> None:
    """Retries and second turns must come to the same end."""
    server = await asyncio.start_server(SoakModel().serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[:2]
    async with server:
        reader, writer = await asyncio.open_connection(*address)
        first = await asked(reader, writer, body_of(mood))
        writer.close()
        reader, writer = await asyncio.open_connection(*address)
        second = await asked(reader, writer, body_of(mood))
        writer.close()
    assert sign in first
    assert reply_text(TOKEN)[:30].encode() not in first
    assert reply_text(TOKEN)[:20].encode() in second
    assert b'"prompt_tokens"' in second


def series(value: float, an_hour: float) -> list[tuple[float, float]]:
    """Ten minutes, a point each 5 s."""
    return [(at * 5.0, value + an_hour * at * 5 / 3600) for at in range(120)]


def verdicts(series_by_name: dict[str, list[tuple[float, float]]], *, settled: bool = True) -> dict[str, str]:
    """By name."""
    return {each.name: each.verdict for each in judge(series_by_name, warm_up=60, settled=settled)}


def test_what_must_be_flat_what_is_bounded_and_what_grows_by_nature() -> None:
    """Costs are kept for 84 months; the memory of a gateway is not."""
    found = {
        "rss.gateway": series(80 * MB, 60 * MB),
        "rss.indexer": series(60 * MB, 0.1 * MB),
        "table.costs": series(1 * MB, 30 * MB),
        "table.run_steps": series(1 * MB, 30 * MB),
        "stream.lucyd:control": series(100, 3000),
        "disk.wal": series(900 * MB, 900 * MB),
        "keys.never": series(0, 0),
    }
    assert verdicts(found) == {
        "rss.gateway": "grows",
        "rss.indexer": "flat",
        "table.costs": "by nature",
        "table.run_steps": "grows",
        "stream.lucyd:control": "bounded",
        "disk.wal": "grows",
    }
    assert set(verdicts(found, settled=False).values()) == {"too short"}


def test_the_table_says_it_in_words() -> None:
    """Somebody reads it in the morning."""
    judged: list[Judged] = list(
        judge({"rss.gateway": series(80 * MB, 60 * MB), "table.costs": series(0, 36 * MB)}, warm_up=60)
    )
    text = table(judged, runs=1000, seconds=100)
    assert "GROWS" in text
    assert "1.00 k a run: kept 84 months" in text
