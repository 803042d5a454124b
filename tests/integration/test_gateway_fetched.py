"""Responses that are fetched by their id, where nothing has to run."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.stack import TOKEN, Stack, open_stack

NO_RESPONSE = f"/v1/responses/resp_{'0' * 32}"


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, "") as opened:
        yield opened


def test_a_response_is_not_fetched_as_a_stream_and_whoever_asks_for_one_is_told(stack: Stack) -> None:
    """The official SDK finds no event in a body of JSON, and takes that for a stream that has ended well."""
    gateway = stack.gateway()
    with httpx2.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        refused = http.get(NO_RESPONSE, params={"stream": "true"})
        looked_for = [http.get(NO_RESPONSE, params=query) for query in ({}, {"stream": "false"}, {"include[]": "x"})]
    assert refused.status_code == 400
    assert refused.json()["error"] == {
        "message": '"stream" must be false: follow the run instead',
        "type": "invalid_request_error",
        "param": "stream",
        "code": None,
    }
    assert [each.status_code for each in looked_for] == [404] * 3
