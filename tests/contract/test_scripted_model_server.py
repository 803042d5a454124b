"""The scripted provider as a process of its own: what other processes are tested against."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

SERVER = Path(__file__).parents[1] / "scripted_model_server.py"
HEADERS = {"authorization": "Bearer x", "anthropic-version": "any"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def test_scripts_are_told_and_calls_counted_from_outside(url: str) -> None:
    """A test of six processes can write its own script and see later how often the provider was paid."""
    call_id = str(uuid4())
    with httpx2.Client(base_url=url) as client:
        client.post("/__scripts", json={"name": "mine", "steps": [{"fail": 529, "retry_after": 2}, {"say": "hello"}]})
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "[[script:mine]]"}]}
        headers = {**HEADERS, "X-Lucyd-Call-Id": call_id}
        first, second = (client.post("/v1/messages", json=body, headers=headers) for _ in range(2))
        assert (first.status_code, first.headers["retry-after"]) == (529, "2")
        assert second.json()["content"] == [{"type": "text", "text": "hello"}]
        assert client.get("/__calls").json()["by_call_id"][call_id] == 2
        asked = client.get("/__requests", params={"last": 1}).json()[0]
        assert (asked["call_id"], asked["body"], asked["headers"]["authorization"]) == (call_id, body, "***")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "x"}]},
        {"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]},
        {"messages": [{"role": "user", "content": []}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}]},
        {"messages": [{"role": "user", "content": "x"}], "temperature": 1},
        {"messages": [{"role": "user", "content": "x"}], "max_tokens": None},
        {
            "messages": [{"role": "user", "content": "x"}],
            "max_tokens": 9,
            "thinking": {"type": "enabled", "budget_tokens": 9},
        },
    ],
)
def test_what_the_vendor_refuses_is_refused(url: str, body: dict[str, object]) -> None:
    """A fake that forgives would let us ship what the vendor rejects."""
    answer = httpx2.post(f"{url}/v1/messages", json={"model": "m", "max_tokens": 9} | body, headers=HEADERS)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "x"}],
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}}],
            },
            {"role": "user", "content": "x"},
        ],
        [{"role": "assistant", "content": None}],
    ],
)
def test_what_the_other_vendor_refuses_is_refused(url: str, messages: list[object]) -> None:
    answer = httpx2.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": messages}, headers=HEADERS)
    assert answer.status_code == 400


async def test_a_caller_that_hangs_up_is_noticed(url: str) -> None:
    """A killed worker leaves its call behind; the second attempt is answered."""
    body = {"model": "m", "messages": [{"role": "user", "content": f"[[script:hang_once {uuid4()}]]"}]}
    async with httpx2.AsyncClient(base_url=url, headers=HEADERS) as client:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.post("/v1/chat/completions", json=body)
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.json()["choices"][0]["message"]["content"] == "That took a while."
