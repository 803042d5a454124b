"""A person talks to the agent through real processes, real servers and the vendors' real wires."""

import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from tests.scripted_model_server import Fail, Say, Script, ScriptedModelServer, Step, Tokens, Use
from tests.stack import Stack, client, model_toml, open_stack, read_events

ASKED = Tokens(input=1_234, output=56, cache_read=789, cache_write=321)
TOLD = Tokens(input=2_345, output=67, cache_read=1_111, cache_write=0)
ENDED = Tokens(input=3_456, output=78)
RATES = ("3.0", "15.0", "0.30", "3.75")

TWO_TOOLS: list[Step] = [
    Use(
        [
            ("write", {"file_path": "notes.txt", "content": "the cat is called Tom\n"}),
            ("read", {"file_path": "gone.txt"}),
        ],
        text="Let me look.",
        tokens=ASKED,
    ),
    Use([("read", {"file_path": "notes.txt"})], tokens=TOLD),
    Say("Your cat is called Tom.", tokens=ENDED),
]


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """A model server that knows the conversation of this file."""
    scripts: dict[str, Script] = {
        "two_tools": TWO_TOOLS,
        "busy": [Fail(429, retry_after=0.05), Fail(529), Say("Here at last.")],
        "broken": [Fail(400, message="this model does not like you")],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture(params=["anthropic streamed", "anthropic whole", "openai streamed", "openai whole"])
def stack(
    request: pytest.FixtureRequest, models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    """The same configuration over both wires; only ``base_url`` and ``provider`` change."""
    provider, _, manner = request.param.partition(" ")
    toml = model_toml(provider, models.base_url(provider), streaming=manner == "streamed", rates=RATES)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


def exact_cost(*calls: Tokens) -> Decimal:
    """Tokens times rates, in decimal."""
    rates = [Decimal(rate) for rate in RATES]
    return sum(
        (
            call.input * rates[0] + call.output * rates[1] + call.cache_read * rates[2] + call.cache_write * rates[3]
            for call in calls
        ),
        Decimal(0),
    ) / Decimal(1_000_000)


def test_two_tools_an_error_and_the_cost_to_the_last_digit(stack: Stack) -> None:
    """The agent writes, reads, hears of a missing file, answers, remembers, and the bill is exact."""
    gateway, _ = stack.gateway(), stack.workers()
    with client(gateway) as http:
        reply = http.post("/api/v1/chat", json={"message": "who is my cat? [[script:two_tools]]"}).json()
        assert reply["reply"] == "Your cat is called Tom."
        assert reply["agent"] == "Testbert"
        assert reply["turns"] == 3
        expected = exact_cost(ASKED, TOLD, ENDED)
        assert Decimal(str(reply["cost"])) == expected
        assert Decimal(str(http.get("/api/v1/cost").json()["total_cost"])) == expected
        history = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").json()["events"]
        results = [event["content"] for event in history if event["type"] == "tool_result"]
        assert results[0].startswith("Written")
        assert results[1].startswith("Error")
        assert "the cat is called Tom" in results[2]
        second = http.post("/api/v1/chat", json={"message": "and again?"}).json()
        assert "and again?" in second["reply"]
    with psycopg.connect(stack.database_url) as database:
        row = database.execute("select sum(cost), count(*) from costs where run = %s", (reply["run_id"],)).fetchone()
        assert row == (expected, 3)
        unsettled = database.execute("select count(*) from reservations where settled_at is null").fetchone()
        assert unsettled == (0,)
    assert (stack.workspace / "notes.txt").read_text() == "the cat is called Tom\n"


def test_the_reply_is_shown_as_it_is_written(stack: Stack) -> None:
    """A client sees tools start and finish, the text in pieces that make the reply, and one end with the cost."""
    gateway, _ = stack.gateway(), stack.workers()
    with (
        client(gateway) as http,
        http.stream("POST", "/api/v1/chat/stream", json={"message": "[[script:two_tools]]"}) as r,
    ):
        events = read_events(r.iter_lines())
    kinds = [kind for _, kind, _ in events]
    assert kinds[0] == "accepted"
    assert kinds[-1] == "done"
    assert kinds.count("done") == 1
    assert kinds.count("tool_started") == kinds.count("tool_finished") == 3
    assert [data["ok"] for _, kind, data in events if kind == "tool_finished"].count(False) == 1
    end = events[-1][2]
    assert end["reply"] == "Your cat is called Tom."
    assert end["cost"] > 0
    if "supports_streaming = true" in stack.config.read_text():
        last_tool = len(kinds) - kinds[::-1].index("tool_finished")
        text = "".join(data["text"] for _, kind, data in events[last_tool:] if kind == "delta")
        assert text == end["reply"]
    order = [tuple(map(int, identifier.split("-"))) for identifier, _, _ in events]
    assert order == sorted(set(order))


def test_a_busy_provider_is_asked_again_and_a_refusal_is_told(stack: Stack, models: ScriptedModelServer) -> None:
    """429 and 529 are passing; 400 is not, and leaves the session usable."""
    gateway, _ = stack.gateway(), stack.workers()
    with client(gateway) as http:
        assert http.post("/api/v1/chat", json={"message": "[[script:busy]]"}).json()["reply"] == "Here at last."
        refused = http.post("/api/v1/chat", json={"message": "[[script:broken]]"})
        assert refused.status_code == 200
        assert "does not like you" in refused.json()["error"]
        started = time.monotonic()
        assert "still there?" in http.post("/api/v1/chat", json={"message": "still there?"}).json()["reply"]
        assert time.monotonic() - started < 10
    with psycopg.connect(stack.database_url) as database:
        made = database.execute("select count(*), count(settled_at) from reservations").fetchone()
        booked = database.execute("select count(*) from costs").fetchone()
    asked = sum(models.calls.values())
    assert made == (asked, asked)
    assert booked == (asked,)
