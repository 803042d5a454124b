"""Every documented request of the original, replayed against a real gateway and a real worker: keys and codes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.scripted_model_server import Fail, Say, Script, ScriptedModelServer, Tokens, Use
from tests.stack import Stack, client, model_toml, open_stack, wait_until
from tests.webhook_receiver import Receiver, open_receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
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
        "look": [
            Use([("read", {"file_path": "tea.md"})], thinking="Where is it?", tokens=Tokens(100, 20, 40, 7)),
            Say("There is tea.", tokens=Tokens(130, 9, 60, 0)),
        ],
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
    assert good["attachments"] == []
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
    headers = {**TRACED, "Idempotency-Key": "one"}
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


def test_what_bridges_bring_is_answered_as_a_chat(http: httpx2.Client, models: ScriptedModelServer) -> None:
    """One person, two channels, one session; what went wrong is told in words that can be passed on."""
    by_telegram = _same_everywhere(http.post("/api/v1/inbound/telegram", json={"message": "[[script:say]]"}), 200)
    by_mail = _same_everywhere(http.post("/api/v1/inbound/email", json={"message": "[[script:say]]"}), 200)
    assert by_telegram["reply"] == by_mail["reply"] == "Hello there."
    assert by_telegram["session_id"] == by_mail["session_id"]
    assert by_telegram["tokens"].keys() >= {"input", "output"}
    photo = {"content_type": "image/png", "data": "iVBORw0KGgo=\r\n"}
    silent = {"message": "", "attachments": [photo], "context": "[script:say]"}  # in brackets: it is the script's mark
    assert _same_everywhere(http.post("/api/v1/inbound/telegram", json=silent), 200)["reply"] == "Hello there."
    assert "[[script:say]] [image]" in str(models.requests[-1])
    failed = _same_everywhere(http.post("/api/v1/inbound/telegram", json={"message": "[[script:fail]]"}), 200)
    assert failed["error"]
    assert failed["reply"] == "I'm having trouble right now. Please try again in a moment."
    assert "session_id" in failed
    _same_everywhere(http.post("/api/v1/inbound/telegram", json={}), 400)
    assert _same_everywhere(http.post("/api/v1/inbound/whatsapp", json={"message": "x"}), 501)["error"]


def test_sessions_histories_and_costs_have_the_names_of_both_generations(http: httpx2.Client) -> None:
    """Tools of either read what they know; a session is found by its contact as well as by its id."""
    chat = http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": "Ada"}).json()
    (session,) = _same_everywhere(http.get("/api/v1/sessions"), 200)["sessions"]
    assert session.keys() >= {
        "session_id", "contact", "created_at", "model", "message_count", "compaction_count", "context_tokens",
        "context_pct", "cost_usd", "cost", "event_count", "log_files", "log_bytes",
    }  # fmt: skip
    assert (session["message_count"], session["event_count"]) == (2, 2)
    assert session["cost_usd"] == session["cost"] > 0
    assert (session["session_id"], session["contact"]) == (chat["session_id"], "http-Ada")
    for name in (chat["session_id"], "http-Ada", "HTTP-ADA", "ada"):
        history = _same_everywhere(http.get(f"/api/v1/sessions/{name}/history"), 200)
        assert history["session_id"] == chat["session_id"]
        assert [event["role"] for event in history["events"]] == ["user", "assistant"]
        assert (history["events"][0]["from"], history["events"][0]["source"]) == ("Ada", "http")
    assert _same_everywhere(http.get("/api/v1/sessions/nobody/history?full=1"), 200)["events"] == []
    for period in ("today", "week", "all"):
        cost = _same_everywhere(http.get(f"/api/v1/cost?period={period}"), 200)
        assert cost["period"] == period
        assert cost["total_cost"] > 0
        assert cost["models"][0].keys() >= {
            "model", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd",
        }  # fmt: skip
    month = datetime.now(UTC).strftime("%Y-%m")
    bill = _same_everywhere(http.get(f"/api/v1/cost?period={month}"), 200)
    assert (bill["billing_period"], bill["currency"], bill["truncated"]) == (month, "USD", False)
    assert [record["run"] for record in bill["records"]] == [chat["run_id"]]
    assert bill["total_cost"] == sum(record["cost"] for record in bill["records"])
    assert http.get("/api/v1/cost?period=1999-01").json()["records"] == []
    for wrong in ("month", "2026-13", "2026-5", "0000-01", "2026-05x"):
        _same_everywhere(http.get(f"/api/v1/cost?period={wrong}"), 400)


def test_a_history_tells_what_each_answer_has_used(http: httpx2.Client) -> None:
    """Messages alone, or with ``full`` all that was stored; the usage by the names of the original's session files."""
    chat = http.post("/api/v1/chat", json={"message": "[[script:look]]", "sender": "ada"}).json()
    first = _used(100, 20, 40, 7)
    last = _used(130, 9, 60, 0)
    path = f"/api/v1/sessions/{chat['session_id']}/history"
    said = _same_everywhere(http.get(path), 200)["events"]
    assert [event["type"] for event in said] == ["message"] * 3
    assert (said[0]["role"], said[0]["content"]) == ("user", "[[script:look]]")
    assert (said[0]["from"], said[0]["source"]) == ("ada", "http")
    assert [(event["text"], event["usage"]) for event in said[1:]] == [("", first), ("There is tea.", last)]
    for value in ("true", "1", "yes"):
        events = _same_everywhere(http.get(f"{path}?full={value}"), 200)["events"]
        assert [event["type"] for event in events] == ["message", "message", "tool_result", "message"]
        (call,) = events[1]["tool_calls"]
        assert (call["name"], call["arguments"]) == ("read", {"file_path": "tea.md"})
        assert (events[1]["thinking"], events[1]["usage"]) == ("Where is it?", first)
        assert (events[2]["tool_use_id"], bool(events[2]["content"])) == (call["id"], True)
        assert all(isinstance(event["timestamp"], float) for event in events)
        assert [event["timestamp"] for event in events] == sorted(event["timestamp"] for event in events)


def _used(input: int, output: int, cache_read: int, cache_write: int) -> dict[str, int]:
    return {
        "input_tokens": input, "output_tokens": output, "cache_read_tokens": cache_read,
        "cache_write_tokens": cache_write, "context_tokens": input + cache_read + cache_write,
    }  # fmt: skip


def test_runs_are_listed_by_session_and_state(http: httpx2.Client) -> None:
    """The newest first, never more than asked for."""
    chats = [
        http.post("/api/v1/chat", json={"message": f"[[script:{script}]]", "sender": sender}).json()
        for script, sender in (("say", "ada"), ("say", "bob"), ("fail", "bob"))
    ]
    ids = [chat["run_id"] for chat in chats]

    def listed(query: str) -> list[str]:
        return [run["run_id"] for run in _same_everywhere(http.get(f"/api/v1/runs{query}"), 200)["runs"]]

    assert listed("") == ids[::-1]
    assert listed("?limit=1") == ids[2:]
    assert listed("?state=failed") == ids[2:]
    assert listed(f"?session={chats[0]['session_id']}&state=done") == ids[:1]
    assert listed("?state=waiting") == []
    for wrong in ("?state=lost", "?limit=0", "?limit=201", "?limit=x", "?session=ada"):
        _same_everywhere(http.get(f"/api/v1/runs{wrong}"), 400)


def test_the_status_and_the_monitor_are_told(http: httpx2.Client) -> None:
    """Both names of the model; the status needs no token, as in the original."""
    chat = http.post("/api/v1/chat", json={"message": "[[script:look]]"}, headers=TRACED).json()
    status = _same_everywhere(http.get("/api/v1/status", headers={"Authorization": ""}), 200)
    assert status.keys() >= {
        "status", "pid", "uptime_seconds", "channel", "models", "model", "active_sessions", "today_cost", "queue_depth",
        "error_counts",
    }  # fmt: skip
    assert (status["active_sessions"], status["queue_depth"]) == (1, 0)
    assert (status["model"], status["models"], status["channel"]) == ("scripted-1", ["scripted-1"], "http")
    assert status["error_counts"].keys() == {"run", "webhook", "delivery"}
    wait_until(lambda: http.get("/api/v1/monitor").json().get("turn") == 2, "its end is seen")
    monitor = _same_everywhere(http.get("/api/v1/monitor"), 200)
    assert (monitor["state"], monitor["contact"], monitor["session_id"]) == ("idle", "http-default", chat["session_id"])
    assert (monitor["trace_id"], monitor["model"], monitor["tools_in_flight"]) == (TRACE, "scripted-1", [])
    assert monitor["principal"] == "key:default"
    assert monitor["message_started_at"] <= monitor["turn_started_at"] <= monitor["updated_at"]
    turns = monitor["turns"]
    assert all(turn["duration_ms"] >= 0 for turn in turns)
    assert [(turn["stop_reason"], turn["tools"]) for turn in turns] == [("tool_use", ["read"]), ("end_turn", [])]
    used = [{name: value for name, value in turn.items() if name.endswith("_tokens")} for turn in turns]
    assert used == [
        {name: value for name, value in each.items() if name != "context_tokens"}
        for each in (_used(100, 20, 40, 7), _used(130, 9, 60, 0))
    ]


def test_a_client_that_joins_what_a_stream_calls_text_has_the_answer(http: httpx2.Client) -> None:
    """The original's clients look at the data alone, and read until ``done``."""
    body = {"message": "[[script:look]]", "sender": "ada"}
    told = http.post("/api/v1/chat/stream", json=body).raise_for_status()
    assert told.headers["content-type"].startswith("text/event-stream")
    frames = [json.loads(line.removeprefix("data: ")) for line in told.text.splitlines() if line.startswith("data: ")]
    assert "".join(frame["text"] for frame in frames if "text" in frame) == "There is tea."
    assert "".join(frame["thinking"] for frame in frames if "thinking" in frame) == "Where is it?"
    assert [frame["stop_reason"] for frame in frames if frame.get("done")] == ["end_turn"]


def test_sessions_are_reset_by_all_the_names_they_have(http: httpx2.Client) -> None:
    """``all``, a contact, an id; and ``false`` with a reason where there is nothing."""
    reset = "/api/v1/sessions/reset"
    chats = [
        http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": sender}).json()
        for sender in ("ada", "bob", "eve")
    ]
    by_contact = _same_everywhere(http.post(reset, json={"target": "http-ada"}), 200)
    assert (by_contact["reset"], by_contact["target"], by_contact["type"]) == (True, "http-ada", "contact")
    by_id = _same_everywhere(http.post(reset, json={"target": chats[1]["session_id"]}), 200)
    assert (by_id["reset"], by_id["type"]) == (True, "session_id")
    everything = _same_everywhere(http.post(reset, json={"target": "all"}), 200)
    assert (everything["reset"], everything["target"], everything["count"]) == (True, "all", 1)
    http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": "ada"})
    by_default = _same_everywhere(http.post(reset, json={}), 200)
    assert (by_default["target"], by_default["count"]) == ("all", 1)
    _same_everywhere(http.post(reset), 400)
    none = _same_everywhere(http.post(reset, json={"target": "ada"}), 200)
    assert none["reset"] is False
    assert none["reason"]
    http.post("/api/v1/inbound/telegram", json={"message": "[[script:say]]"})
    person = _same_everywhere(http.post(reset, json={"target": "user"}), 200)
    assert (person["reset"], person["target"], person["count"]) == (True, "user", 1)
    wrong = _same_everywhere(http.post(reset, json={"target": ""}), 400)
    assert wrong["error"] == '"target" must be a non-empty string'


def test_a_session_is_compacted_when_somebody_asks(http: httpx2.Client) -> None:
    """200 when it was, 202 with the reason when not; whatever its size."""
    nothing = _same_everywhere(http.post("/api/v1/compact"), 202)
    assert (nothing["status"], nothing["reason"]) == ("skipped", "there is no session to compact")
    chats = [http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": "ada"}).json()]
    early = _same_everywhere(http.post("/api/v1/compact"), 202)
    assert (early["status"], early["session"]) == ("skipped", chats[0]["session_id"])
    assert early["reason"]
    chats += [http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": "ada"}).json() for _ in range(3)]
    done = _same_everywhere(http.post("/api/v1/compact"), 200)
    assert (done["status"], done["session"]) == ("completed", chats[0]["session_id"])
    (session,) = http.get("/api/v1/sessions").json()["sessions"]
    assert session["compaction_count"] == 1


def test_an_evolution_is_not_promised(http: httpx2.Client) -> None:
    """There is no routine behind it, so nothing is queued; the original says it with this status, too."""
    assert _same_everywhere(http.post("/api/v1/evolve"), 503)["error"]


def test_sessions_that_rest_are_closed_when_somebody_asks(http: httpx2.Client, stack: Stack) -> None:
    """Those that were used lately stay."""
    for sender in ("ada", "bob"):
        http.post("/api/v1/chat", json={"message": "[[script:say]]", "sender": sender})
    path = "/api/v1/sessions/auto-reset"
    assert _same_everywhere(http.post(path, json={}), 200)["count"] == 0
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        database.execute("update sessions set updated_at = now() - interval '61 minutes' where contact = 'http-ada'")
        database.execute("update runs set finished_at = now() - interval '61 minutes' where sender = 'ada'")
    closed = _same_everywhere(http.post(path, json={}), 200)
    assert (closed["reset"], closed["count"], closed["idle_minutes"]) == (True, 1, 60)
    assert [session["contact"] for session in http.get("/api/v1/sessions").json()["sessions"]] == ["http-bob"]


def test_jobs_are_put_on_their_queues_and_reported_on(http: httpx2.Client, stack: Stack) -> None:
    """202 with an id; what became of it can be asked until a day later."""
    waiting = {}
    for name, body in (("index", {"full": True}), ("consolidate", None), ("maintain", None)):
        queued = _same_everywhere(http.post(f"/api/v1/{name}", json=body), 202)
        assert queued["status"] == "queued"
        waiting[name] = queued["job_id"]
        job = _same_everywhere(http.get(f"/api/v1/jobs/{queued['job_id']}"), 200)
        assert (job["state"], job["queue"], job["ended_at"]) == ("queued", f"lucyd-{name}", None)
    stack.start("consolidator")
    job = f"/api/v1/jobs/{waiting['maintain']}"
    wait_until(lambda: http.get(job).json()["state"] == "finished", "the job was done")
    done = _same_everywhere(http.get(job), 200)
    assert done["result"]
    assert done["error"] is None
    _same_everywhere(http.get("/api/v1/jobs/nothing"), 404)
    assert _same_everywhere(http.post("/api/v1/index", json={"full": "yes"}), 400)["error"]
    status = _same_everywhere(http.get("/api/v1/index/status"), 200)
    assert status.keys() >= {"db_exists", "indexed_files", "total_chunks", "pending_files", "stale_files"}
    assert (status["db_exists"], status["indexed_files"]) == (True, 0)


def test_plugins_are_told_as_the_workers_have_them(http: httpx2.Client) -> None:
    """Those in the box are there; of others nothing is pretended."""

    def told() -> dict[str, Any]:
        plugins = _same_everywhere(http.get("/api/v1/plugins"), 200)["plugins"]
        return {plugin["name"]: plugin for plugin in plugins}

    wait_until(lambda: "elevenlabs" in told(), "a worker has told of its plugins")
    assert told()["elevenlabs"]["configured"] is True
    assert told()["elevenlabs"]["notes"] == ["tts: it is not in [tools] enabled"]
    assert _same_everywhere(http.get("/api/v1/plugins/elevenlabs/health"), 200)["state"] == "loaded"
    assert _same_everywhere(http.get("/api/v1/plugins/tts/health"), 404)["error"]
