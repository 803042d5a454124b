"""An answer that ends its connection waits until the request was said, but not for ever."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from services.gateway.edge.hear_out import HearsOut


async def refuses(_: Scope, __: Receive, send: Send) -> None:
    """Answers without listening."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no", "more_body": False})


async def ends_of_bodies(headers: list[tuple[bytes, bytes]], *, pieces: int, ends: bool, version: str) -> list[bool]:
    """Whether each piece of the answer's body was its end; so many pieces of the request come, and maybe its end."""
    told: list[bool] = []
    said: list[Message] = [{"type": "http.request", "body": b"x", "more_body": True} for _ in range(pieces)]
    said += [{"type": "http.request", "body": b"", "more_body": False}] if ends else []

    async def receive() -> Message:
        if not said:
            await asyncio.Event().wait()
        return said.pop(0)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            told.append(not message.get("more_body", False))

    scope = {"type": "http", "http_version": version, "headers": headers}
    await HearsOut(refuses, heard_for=0.05)(scope, receive, send)
    return told


CLOSES = (b"connection", b"Close")
LENGTH = (b"content-length", b"9")


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("headers", "version"),
    [([CLOSES, LENGTH], "1.1"), ([LENGTH], "1.0"), ([(b"transfer-encoding", b"chunked"), CLOSES], "1.1")],
)
async def test_the_end_comes_when_all_is_said_or_its_time_is_over(
    headers: list[tuple[bytes, bytes]], version: str, ends: bool
) -> None:
    """The whole answer goes out first; only the end of the connection waits."""
    assert await ends_of_bodies(headers, pieces=3, ends=ends, version=version) == [False, True]


@pytest.mark.parametrize("headers", [[], [CLOSES], [LENGTH], [CLOSES, (b"content-length", b"0")]])
async def test_nobody_else_waits(headers: list[tuple[bytes, bytes]]) -> None:
    """Where the connection stays, or there is no body, the answer ends at once."""
    assert await ends_of_bodies(headers, pieces=3, ends=True, version="1.1") == [True]
