"""A body of megabytes may hold millions of mistakes; one of them is enough."""

from typing import Any

import pytest

from services.gateway.rules.chat_request import ChatBody
from services.gateway.rules.event_request import NotifyBody
from services.gateway.rules.openai_chat import CompletionBody
from services.gateway.rules.openai_embeddings import EmbeddingsBody
from services.gateway.rules.openai_responses import ResponseBody
from services.gateway.rules.request_body import RequestBody

MANY = [0] * 100_000
WRONG = [False] * 100_000


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (ChatBody, {"message": "x", "attachments": MANY}),
        (NotifyBody, {"message": "x", "attachments": MANY}),
        (CompletionBody, {"model": "m", "messages": MANY}),
        (CompletionBody, {"model": "m", "messages": [{"role": "user", "content": MANY}]}),
        (CompletionBody, {"model": "m", "messages": [{"role": "system", "content": MANY}]}),
        (ResponseBody, {"model": "m", "input": MANY}),
        (ResponseBody, {"model": "m", "input": [{"role": "user", "content": MANY}]}),
        (EmbeddingsBody, {"model": "m", "input": WRONG}),
        (EmbeddingsBody, {"model": "m", "input": [WRONG]}),
    ],
)
def test_only_a_few_of_many_mistakes_are_gathered(model: type[RequestBody], body: dict[str, Any]) -> None:
    """Each is a dictionary of a kilobyte; the library would make all of them to show the first."""
    with pytest.raises(ValueError, match="validation error") as told:
        model.model_validate(body)
    assert 1 <= told.value.error_count() <= 10  # type: ignore[attr-defined]  # one for each way to read a list
