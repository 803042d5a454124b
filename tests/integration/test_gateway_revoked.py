"""A key that is revoked while its requests are under way."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.api_keys import bearer, make_key, revoke_key
from tests.stack import Stack, async_client, open_stack

WITHIN = 10.0
"""Seconds for what takes five at most, on a machine that has more to do."""


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    toml = '[agent]\nname = "Testbert"\n[run]\nwait_seconds = 60\n'
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


async def test_who_waits_or_listens_with_a_revoked_key_is_sent_away(stack: Stack) -> None:
    """A stream may be open for hours: whoever lost the right to read must not go on reading. Others stay."""
    gateway = await asyncio.to_thread(stack.gateway)
    lost = bearer(make_key(stack.database_url, "lost", "chat"))
    kept = bearer(make_key(stack.database_url, "kept", "chat"))
    async with async_client(gateway) as http:

        async def waits(headers: dict[str, str], sender: str) -> httpx2.Response:
            return await http.post("/api/v1/chat", json={"message": "hello", "sender": sender}, headers=headers)

        run = asyncio.get_running_loop().create_future()

        async def listens(headers: dict[str, str]) -> str:
            body = {"message": "hello", "sender": "ear"}
            told = ""
            async with http.stream("POST", "/api/v1/chat/stream", json=body, headers=headers) as stream:
                async for piece in stream.aiter_text():
                    told += piece
                    if not run.done():
                        run.set_result(True)
            return told

        others = [asyncio.create_task(waits(kept, "a")), asyncio.create_task(waits({}, "b"))]
        waiting, listening = asyncio.create_task(waits(lost, "c")), asyncio.create_task(listens(lost))
        async with asyncio.timeout(WITHIN):
            await run
        revoke_key(stack.database_url, "lost")
        async with asyncio.timeout(WITHIN):
            refused, told = await asyncio.gather(waiting, listening)
        assert (refused.status_code, refused.json()) == (401, {"error": "unauthorized"})
        assert "event: accepted" in told
        assert "event: done" not in told
        assert not any(task.done() for task in others)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.parametrize("wishes", [{}, {"Prefer": "cancel-on-disconnect"}], ids=["goes on", "ends with its client"])
async def test_a_stream_of_openai_that_ends_with_its_key_says_so(stack: Stack, wishes: dict[str, str]) -> None:
    """Half an answer must not pass for a whole one: clients of OpenAI take the end of the body for the end of it."""
    gateway = await asyncio.to_thread(stack.gateway)
    lost = bearer(make_key(stack.database_url, "lost", "chat")) | wishes
    body = {"model": "lucyd", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    told = ""
    async with (
        async_client(gateway) as http,
        asyncio.timeout(WITHIN),
        http.stream("POST", "/v1/chat/completions", json=body, headers=lost) as stream,
    ):
        revoke_key(stack.database_url, "lost")
        async for piece in stream.aiter_text():
            told += piece
    assert '"error"' in told
    assert "[DONE]" not in told
