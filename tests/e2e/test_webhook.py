"""A message goes in, and its end comes out at the receiver."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripted_model_server import Fail, Say, Script, ScriptedModelServer
from tests.stack import Stack, client, model_toml, open_stack, wait_until
from tests.webhook_receiver import Receiver, open_receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with open_receiver(200) as opened:
        yield opened


@pytest.fixture
def stack(receiver: Receiver, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    scripts: dict[str, Script] = {
        "say": [Say("Hello there.")],
        "fail": [Fail(400, message="this model does not like you")],
    }
    with ScriptedModelServer(scripts).in_thread() as models:
        extra = f'[http]\ncallback_url = "{receiver.url}"\n'
        toml = model_toml("anthropic", models.base_url("anthropic"), extra=extra)
        with open_stack(tmp_path, database_url, redis_url, toml) as opened:
            yield opened


def test_the_end_of_a_message_is_posted_whatever_it_was(stack: Stack, receiver: Receiver) -> None:
    """With the keys of the original, and what is told beyond them."""
    gateway = stack.gateway()
    stack.workers()
    with client(gateway) as http:
        good = http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": "ada"}).json()
        bad = http.post("/api/v1/chat", json={"message": "[[script:fail]]", "sender": "bob"}).json()
        assert (good["reply"], bad["reply"]) == ("Hello there.", "")
        wait_until(lambda: len(receiver.received) == 2, "both ends were posted")
        story = http.get(f"/api/v1/runs/{good['run_id']}/story").json()
    by_sender = {each.body["sender"]: each.body for each in receiver.received}
    told = by_sender["ada"]
    assert told["reply"] == "Hello there."
    assert (told["session_id"], told["run_id"]) == (good["session_id"], good["run_id"])
    assert (told["source"], told["silent"], told["state"]) == ("http", False, "done")
    assert told["tokens"].keys() == {"input", "output"}
    assert "error" not in told
    assert by_sender["bob"]["state"] == "failed"
    assert (by_sender["bob"]["reply"], by_sender["bob"]["error"]) == ("", bad["error"])
    assert {"accepted", "claimed", "model", "ended", "webhook"} <= {entry["what"] for entry in story["story"]}
