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
def models() -> Iterator[ScriptedModelServer]:
    scripts: dict[str, Script] = {
        "say": [Say("Hello there.")],
        "fail": [Fail(400, message="this model does not like you")],
    }
    with ScriptedModelServer(scripts).in_thread() as opened:
        yield opened


@pytest.fixture
def stack(
    models: ScriptedModelServer, receiver: Receiver, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
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


def test_one_trace_leads_from_the_request_to_the_model_and_to_the_receiver(
    stack: Stack, models: ScriptedModelServer, receiver: Receiver
) -> None:
    """Each of them under a span of its own, so that whoever reads traces sees who asked whom."""
    gateway = stack.gateway()
    stack.workers()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with client(gateway) as http:
        given = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        answer = http.post("/api/v1/chat", json={"message": "[[script:say]]"}, headers=given)
        wait_until(lambda: len(receiver.received) == 1, "its end was posted")
    asked = models.requests[-1]["headers"]["traceparent"]
    told = [answer.headers["traceparent"], asked, receiver.received[0].headers["traceparent"]]
    assert {each[3:35] for each in told} == {trace}
    assert len({each[36:52] for each in told} | {"00f067aa0ba902b7"}) == 4
    assert {each[:3] + each[-3:] for each in told} == {"00--01"}
