"""What the load says and what the model server answers."""

import orjson
import pytest

from bench.wire import (
    CHUNKS,
    LAST_CHUNK,
    MESSAGE_BYTES,
    PIECE_ENDS,
    Answer,
    Mark,
    Wire,
    find_mark,
    message_text,
    reply_text,
)
from shared.adapters.models.event_stream import EventStream

MARK = Mark("0123456789ab", 200, 0)


def dechunked(body: bytes) -> bytes:
    """The body without its transfer coding."""
    parts, rest = [], body
    while rest != LAST_CHUNK:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        parts.append(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        rest = rest[length + 2 :]
    return b"".join(parts)


def said_on(wire: Wire) -> str:
    answer = Answer.on(wire)
    whole = b"".join((answer.first_piece(MARK.token), *answer.pieces, LAST_CHUNK))
    stream = EventStream()
    events = stream.feed(dechunked(whole.removeprefix(answer.head))) + stream.close()
    data = [orjson.loads(event) for event in events if event != b"[DONE]"]
    if wire == "openai":
        return "".join(each["choices"][0]["delta"].get("content", "") for each in data if each["choices"])
    return "".join(each["delta"]["text"] for each in data if each["type"] == "content_block_delta")


def test_a_message_is_as_long_as_it_is_said_to_be_and_its_mark_is_found() -> None:
    """The figures are of messages of 300 bytes."""
    text = message_text(MARK)
    assert len(text.encode()) == MESSAGE_BYTES
    assert find_mark(text.encode()) == MARK


def test_the_last_mark_of_a_request_counts() -> None:
    """The history of a conversation has the marks of earlier messages."""
    earlier = message_text(Mark("aaaaaaaaaaaa", 1, 2))
    assert find_mark(orjson.dumps([earlier, message_text(MARK), "more"])) == MARK


@pytest.mark.parametrize("body", [b"", b"no mark", b"[[bench short 00001 00001]]", b"[[bench 0123456789ab 00"])
def test_without_a_mark_there_is_none(body: bytes) -> None:
    """Such a request is not of this bench and is refused."""
    assert find_mark(body) is None


@pytest.mark.parametrize("mark", [Mark("short", 0, 0), Mark("0123456789ab", -1, 0), Mark("0123456789ab", 0, 100_000)])
def test_a_mark_that_does_not_fit_is_refused(mark: Mark) -> None:
    """A mark of another length would not be found again."""
    with pytest.raises(ValueError, match="not a mark"):
        message_text(mark)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_both_wires_say_the_reply_that_is_checked(wire: Wire) -> None:
    """Every reply is compared word by word, so it must be known beforehand."""
    assert said_on(wire) == reply_text(MARK.token)


def test_a_reply_has_ten_pieces_whose_ends_are_known() -> None:
    """The hop of a piece is measured when the characters up to its end have come."""
    assert len(PIECE_ENDS) == CHUNKS == len(Answer.on("openai").pieces) + 1
    assert PIECE_ENDS[-1] == len(reply_text(MARK.token))
    assert list(PIECE_ENDS) == sorted(set(PIECE_ENDS))
