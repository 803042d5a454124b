"""Figures of real processes, read as Prometheus reads them."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from shared.ids import new_id
from tests.stack import Stack, client, open_stack, text_of, wait_until

COST = """
insert into costs (call_id, principal, call_type, conversation, run, provider, model, input_tokens, output_tokens,
                   cache_read_tokens, cache_write_tokens, rate_input, rate_output, rate_cache_read, rate_cache_write,
                   cost, currency)
select gen_random_uuid(), principal, 'agentic', conversation, id, 'p', 'm', 1, 1, 0, 0, 1, 1, 1, 1, 0.25, 'EUR'
from runs
"""


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, "[run]\nwait_seconds = 0.2\n") as opened:
        yield opened


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def one(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def test_the_gateway_tells_what_it_did_and_what_waits(stack: Stack) -> None:
    """Open to everybody as in the original, so there is nobody in it: no sender, no key, no path."""
    with client(stack.gateway()) as http, psycopg.connect(stack.database_url, autocommit=True) as database:
        http.post("/api/v1/chat", json={"message": "a private word", "sender": "a-private-name"})
        run = str(new_id())
        assert http.get(f"/api/v1/runs/{run}").status_code == 404
        assert http.get("/a/path/of/nobody").status_code == 404
        database.execute(COST)
        answer = httpx2.get(f"{http.base_url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = samples(answer.text)
    told = one(found, "lucyd_http_requests_total", method="POST", route="/api/v1/chat", status="408")
    assert told == 1
    assert one(found, "lucyd_http_requests_total", method="GET", route="/api/v1/runs/{id}", status="404") == 1
    assert one(found, "lucyd_http_requests_total", method="GET", route="(none)", status="404") == 1
    assert one(found, "lucyd_http_requests_in_flight") == 1  # this one
    assert one(found, "lucyd_runs_accepted_total", source="http") == 1
    assert one(found, "lucyd_runs_open", state="accepted") == 1
    assert one(found, "lucyd_runs_open", state="running") == 0
    assert one(found, "lucyd_queue_depth", queue="lucyd:inbound") == 1
    assert one(found, "lucyd_source_up", source="postgres") == one(found, "lucyd_source_up", source="redis") == 1
    assert one(found, "lucyd_cost_today", currency="EUR") == 0.25
    assert one(found, "lucyd_http_streams_open") == 0
    assert one(found, "lucyd_event_loop_lag_seconds") < 1
    assert one(found, "process_resident_memory_bytes") > 1e6
    assert [name for name, _ in found if name == "lucyd_build_info"] == ["lucyd_build_info"]
    for word in ("private", run, "nobody", "default"):
        assert word not in answer.text


def test_it_answers_within_seconds_when_postgres_does_not_and_says_so(stack: Stack) -> None:
    """When something hangs is when figures are looked at."""
    with client(stack.gateway()) as http, psycopg.connect(stack.database_url) as holder:
        holder.execute("lock table runs in access exclusive mode")
        answer = http.get("/metrics", timeout=5)
        found = samples(answer.text)
        holder.rollback()
    assert answer.status_code == 200
    assert one(found, "lucyd_source_up", source="postgres") == 0
    assert one(found, "lucyd_source_up", source="redis") == 1
    assert "lucyd_runs_open" not in [name for name, _ in found]


def test_every_other_process_has_its_page_beside_its_health(stack: Stack) -> None:
    """What it says in its monitor key as a number is a figure."""
    with client(stack.gateway()) as http:
        stack.workers()
        wait_until(lambda: len(http.get("/api/v1/monitor").json()["services"]) > 1, "the worker is seen")
        services = http.get("/api/v1/monitor").json()["services"]
    worker = next(each for each in services if each["service"] == "agent_worker")
    found = samples(httpx2.get(f"{worker['health']}/metrics").text)
    assert one(found, "lucyd_build_info", service="agent_worker", version=worker["version"]) == 1
    assert one(found, "lucyd_agent_worker_conversations") == 0
    assert one(found, "process_open_fds") > 0


def test_a_gateway_whose_loop_was_blocked_is_not_ready_for_a_while_and_then_again(stack: Stack) -> None:
    """Whoever spreads requests asks every few seconds, and never while it is blocked."""
    gateway = stack.gateway()
    with client(gateway) as http:
        assert http.get("/readyz").json()["checks"]["event_loop"] == "ok"
        time.sleep(1.1)  # the first probe is under way
        gateway.popen.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        gateway.popen.send_signal(signal.SIGCONT)
        time.sleep(1.5)
        answer = http.get("/readyz")
        assert (answer.status_code, answer.json()["checks"]["event_loop"]) == (503, "blocked")
        assert one(samples(http.get("/metrics").text), "lucyd_event_loop_lag_seconds") > 1
        assert http.get("/healthz").status_code == 200
        wait_until(lambda: http.get("/readyz").status_code == 200, "it is ready again")


def test_an_access_log_names_routes_and_nobody(stack: Stack) -> None:
    """And has neither words nor names of a request."""
    gateway = stack.gateway()
    with client(gateway) as http:
        http.post("/api/v1/chat?word=private", json={"message": "private", "sender": "private"})
        http.get("/healthz")
    gateway.stop()
    said = [line for line in text_of(gateway).splitlines() if '"request"' in line]
    assert [('"/api/v1/chat"' in line, '"status": 408' in line, '"key": "default"' in line) for line in said] == [
        (True, True, True)
    ]
    assert "private" not in text_of(gateway)
