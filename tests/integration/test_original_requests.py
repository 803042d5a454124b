"""Every documented request of the original, replayed against a real gateway and a real worker: keys and codes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.scripted_model_server import Fail, Say, Script, ScriptedModelServer
from tests.stack import Stack, client, model_toml, open_stack, wait_until
from tests.webhook_receiver import Receiver, open_receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
EXTRA = """
[user]
name = "Nico"
[session.auto_reset]
enabled = true
idle_minutes = 60
[http]
callback_url = "{callback}"
rate_limit = 1000
status_rate_limit = 1000
"""


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
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(
    receiver: Receiver, models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=EXTRA.format(callback=receiver.url))
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


@pytest.fixture
def http(stack: Stack) -> Iterator[httpx2.Client]:
    gateway = stack.gateway()
    stack.workers()
    with client(gateway) as opened:
        yield opened


def _same_everywhere(reply: httpx2.Response, status: int) -> Any:
    """The body, after what holds for every reply."""
    assert reply.status_code == status, reply.text
    assert reply.headers["X-Lucyd-Agent"] == "Testbert"
    body = reply.json()
    assert body["agent"] == "Testbert"
    return body


def _ended(http: httpx2.Client, run: str) -> Any:
    """The run, after its end."""
    wait_until(lambda: http.get(f"/api/v1/runs/{run}").json()["finished_at"] is not None, "the run has ended")
    return http.get(f"/api/v1/runs/{run}").json()


def test_a_chat_has_the_original_s_keys(http: httpx2.Client) -> None:
    """A reply, its session and what was spent; a fault of the model is a reply, too."""
    body = {"message": "[[script:say]]", "sender": "ada", "context": "from the CRM", "tier": "full"}
    good = _same_everywhere(http.post("/api/v1/chat", json=body), 200)
    assert good["reply"] == "Hello there."
    assert good["session_id"]
    assert good["tokens"].keys() >= {"input", "output"}
    bad = _same_everywhere(http.post("/api/v1/chat", json={"message": "[[script:fail]]"}), 200)
    assert bad["error"]
    assert "session_id" in bad
    none = _same_everywhere(http.post("/api/v1/chat", json={"sender": "ada"}), 400)
    assert none["error"] == '"message" field is required'


def test_a_notice_is_accepted_and_told_to_the_webhook(
    http: httpx2.Client, receiver: Receiver, models: ScriptedModelServer
) -> None:
    """202 at once; the model reads the labels, the receiver gets back what belongs to it."""
    body = {
        "message": "Disk full. [[script:say]]", "source": "nagios", "ref": "disk-1", "data": {"level": 3},
        "sender": "ada",
    }  # fmt: skip
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "Idempotency-Key": "one"}
    first = _same_everywhere(http.post("/api/v1/notify", json=body, headers=headers), 202)
    again = _same_everywhere(http.post("/api/v1/notify", json=body, headers=headers), 202)
    other = http.post("/api/v1/notify", json={**body, "ref": "disk-2"}, headers=headers)
    assert first["accepted"] is True
    assert first["queued_at"].endswith("Z")
    assert again == first
    assert _same_everywhere(other, 409)["error"]
    _ended(http, first["run_id"])
    wait_until(lambda: len(receiver.received) == 1, "its end was posted")
    told = receiver.received[0].body
    assert told["notify_meta"] == {"source": "nagios", "ref": "disk-1", "data": {"level": 3}}
    assert (told["reply"], told["sender"], told["source"], told["silent"]) == ("Hello there.", "ada", "system", False)
    assert (told["agent"], told["trace_id"]) == ("Testbert", TRACE)
    assert told.keys() >= {"session_id", "tokens"}
    assert "[AUTOMATED SYSTEM MESSAGE] [source: nagios] [ref: disk-1]" in str(models.requests[-1])
    chat = http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": "ada"}).json()
    assert chat["session_id"] == told["session_id"]
    assert _same_everywhere(http.post("/api/v1/notify", json={}), 400)["error"] == '"message" field is required'


def test_events_and_actions_are_accepted_from_whom_they_may_come(http: httpx2.Client) -> None:
    """202 as a notice, 400 with the names of those who may."""
    for path, senders in (
        ("/api/v1/system/event", ["maintenance", "automation", "error"]),
        ("/api/v1/agent/action", ["self", "other"]),
    ):
        for sender in senders:
            taken = _same_everywhere(http.post(path, json={"message": "[[script:say]]", "sender": sender}), 202)
            assert taken["accepted"] is True
            assert taken["queued_at"].endswith("Z")
        refused = _same_everywhere(http.post(path, json={"message": "x", "sender": "somebody"}), 400)
        assert refused["error"]
        assert refused["allowed"] == senders
        assert _same_everywhere(http.post(path, json={}), 400)["error"] == '"message" field is required'


def test_what_bridges_bring_is_answered_as_a_chat(http: httpx2.Client) -> None:
    """One person, two channels, one session; what went wrong is told in words that can be passed on."""
    by_telegram = _same_everywhere(http.post("/api/v1/inbound/telegram", json={"message": "[[script:say]]"}), 200)
    by_mail = _same_everywhere(http.post("/api/v1/inbound/email", json={"message": "[[script:say]]"}), 200)
    assert by_telegram["reply"] == by_mail["reply"] == "Hello there."
    assert by_telegram["session_id"] == by_mail["session_id"]
    assert by_telegram["tokens"].keys() >= {"input", "output"}
    failed = _same_everywhere(http.post("/api/v1/inbound/telegram", json={"message": "[[script:fail]]"}), 200)
    assert failed["error"]
    assert failed["reply"] == "I'm having trouble right now. Please try again in a moment."
    assert "session_id" in failed
    _same_everywhere(http.post("/api/v1/inbound/telegram", json={}), 400)
    assert _same_everywhere(http.post("/api/v1/inbound/whatsapp", json={"message": "x"}), 501)["error"]
