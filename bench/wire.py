"""What the load says, and what the model server answers: both can be told from a token in the text.

A message is exactly as long as was chosen and holds one mark, ``[[bench <token> <first> <later>]]``: how many
milliseconds the answer takes when the token is heard for the first time, and when it is heard again.
"""

import re
from dataclasses import dataclass
from typing import Literal

import orjson

Wire = Literal["openai", "anthropic"]

CHUNKS = 10
TOKEN_LENGTH = 12
MESSAGE_BYTES = 300
LONGEST = 99_999
LAST_CHUNK = b"0\r\n\r\n"
"""Ends a chunked body."""

_FILLER = "Please look at the notes of last week, compare them with the plan, and tell me what is still open. "
_MARK = re.compile(rb"\[\[bench ([0-9a-z]{12}) (\d{5}) (\d{5})\]\]")
_MARK_BEGINS = b"[[bench "
_MARK_LENGTH = len("[[bench 0123456789ab 00200 00200]]")
_TOKEN_PLACE = "@token@@@@@@"  # noqa: S105 - where the token goes, and as long as one
_PIECES = (
    f"Answer to {_TOKEN_PLACE}: ",
    *(f"piece {number} of ten says what there is; " for number in range(2, CHUNKS)),
    "and that is all.",
)
PIECE_ENDS = tuple(sum(map(len, _PIECES[: number + 1])) for number in range(CHUNKS))
"""How many characters of a reply have been said after each of its pieces."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a message asks of the model server; latencies are milliseconds."""

    token: str
    first: int
    later: int


def message_text(mark: Mark) -> str:
    """A message of ``MESSAGE_BYTES`` with this mark. Raises ``ValueError`` for a mark that can't be written."""
    if len(mark.token) != TOKEN_LENGTH or not 0 <= mark.first <= LONGEST or not 0 <= mark.later <= LONGEST:
        raise ValueError(f"not a mark of this bench: {mark}")
    text = f"[[bench {mark.token} {mark.first:05d} {mark.later:05d}]] "
    filler = _FILLER * (MESSAGE_BYTES // len(_FILLER) + 1)
    return text + filler[: MESSAGE_BYTES - len(text)]


def reply_text(token: str) -> str:
    """What the model server says to that token."""
    return "".join(_PIECES).replace(_TOKEN_PLACE, token)


def find_mark(body: bytes) -> Mark | None:
    """The last mark in a request's body: the history before it has marks of its own."""
    begin = body.rfind(_MARK_BEGINS)
    found = _MARK.match(body, begin, begin + _MARK_LENGTH) if begin >= 0 else None
    return Mark(found[1].decode(), int(found[2]), int(found[3])) if found else None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer on a wire, made once and cut where the token goes. ``pieces`` are ready to be written."""

    head: bytes
    before_token: bytes
    after_token: bytes
    pieces: tuple[bytes, ...]

    @classmethod
    def on(cls, wire: Wire) -> "Answer":
        """The answer as that vendor streams it."""
        events = _openai_events() if wire == "openai" else _anthropic_events()
        first, *others = (_http_chunk(event) for event in events)
        before, _, after = first.partition(_TOKEN_PLACE.encode())
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        return cls(head, before, after, tuple(others))

    def first_piece(self, token: str) -> bytes:
        """The head of the response and the piece that names the token."""
        return b"".join((self.head, self.before_token, token.encode(), self.after_token))


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _openai_events() -> list[bytes]:
    """One element for each piece; the last one has the end of the stream too."""
    pieces = [_openai({"content": piece}) for piece in _PIECES]
    pieces[0] = _openai({"role": "assistant", "content": ""}) + pieces[0]
    usage = {"prompt_tokens": 2600, "completion_tokens": 90, "total_tokens": 2690}
    pieces[-1] += _openai({}, finish="stop") + _openai(None, usage=usage) + b"data: [DONE]\n\n"
    return pieces


def _openai(delta: object, *, finish: str | None = None, usage: object = None) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return b"data: %b\n\n" % orjson.dumps({**head, "choices": choices, "usage": usage})


def _anthropic_events() -> list[bytes]:
    usage = {"input_tokens": 2600, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "bench", "content": []}
    begun = {**message, "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    pieces = [
        _anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": piece}) for piece in _PIECES
    ]
    opened = _anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""})
    pieces[0] = _anthropic("message_start", message=begun) + opened + pieces[0]
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    pieces[-1] += _anthropic("content_block_stop", index=0)
    pieces[-1] += _anthropic("message_delta", delta=ending, usage={"output_tokens": 90}) + _anthropic("message_stop")
    return pieces


def _anthropic(kind: str, **rest: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **rest}))
