"""The envelope by hand: what goes out with every answer, what stands in the log, what is counted."""

import json
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.testing import capture_logs

from services.gateway.edge.door import KEY
from services.gateway.edge.envelope import Envelope
from services.gateway.edge.meter import Meter
from services.gateway.edge.operation import Dialect, Operation
from shared.domain.api_key import ApiKey

PATH = "/api/v1/runs/a-private-name"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


async def never(_: Any) -> Any:
    raise AssertionError("nobody asks this one")


def answers(status: int = 200, *, path: str | None = "/api/v1/runs/{id}", dialect: Dialect = "lucyd") -> ASGIApp:
    """An application that finds an operation and answers; without a path it finds none and knows no key."""

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        scope["lucyd.operation"] = None
        if path is not None:
            scope["lucyd.operation"] = Operation("GET", path, never, "read", "it", {}, dialect=dialect)
            scope[KEY] = ApiKey("ada")
        scope["seen"] = dict(scope["headers"])
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"12345", "more_body": True})
        await send({"type": "http.response.body", "body": b"678"})

    return app


async def ask(
    app: ASGIApp, *headers: tuple[str, str], meter: Meter | None = None, access_log: bool = True, method: str = "GET"
) -> tuple[dict[str, str], dict[str, str], int]:
    """Headers of the answer, headers that the application saw, and the status."""
    sent, scope = await served(app, *headers, meter=meter, access_log=access_log, method=method)
    seen = {name.decode(): value.decode() for name, value in scope.get("seen", {}).items()}
    return told_headers(sent), seen, sent[0]["status"]


async def whole(app: ASGIApp, *, path: str = PATH) -> tuple[dict[str, str], bytes, int]:
    """Headers of the answer, its body, and the status."""
    sent, _ = await served(app, path=path)
    return told_headers(sent), b"".join(message.get("body", b"") for message in sent[1:]), sent[0]["status"]


def told_headers(sent: list[Message]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}


async def served(
    app: ASGIApp,
    *headers: tuple[str, str],
    meter: Meter | None = None,
    access_log: bool = True,
    method: str = "GET",
    path: str = PATH,
) -> tuple[list[Message], dict[str, Any]]:
    """What was sent, and the scope as the application left it."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"word=private",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    await Envelope(app, agent="Lucyd", meter=meter or Meter(), access_log=access_log)(scope, receive, send)
    return sent, scope


async def test_a_trace_is_carried_on_and_handlers_see_what_the_caller_is_told() -> None:
    """The run is stored with the span of this request, under which the caller finds it."""
    told, seen, _ = await ask(answers(), ("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01"))
    assert told["traceparent"].startswith(f"00-{TRACE}-")
    assert told["traceparent"].endswith("-01")
    assert "00f067aa0ba902b7" not in told["traceparent"]
    assert seen["traceparent"] == told["traceparent"]


@pytest.mark.parametrize("given", [[], ["nonsense"], [f"00-{TRACE}-00f067aa0ba902b7-01"] * 2])
async def test_a_trace_begins_where_none_came_or_more_than_one(given: list[str]) -> None:
    """Two of them can't both be meant."""
    told, seen, _ = await ask(answers(404, path=None), *(("traceparent", value) for value in given))
    other, _, _ = await ask(answers())
    assert TRACEPARENT.fullmatch(told["traceparent"])
    assert TRACE not in told["traceparent"]
    assert seen["traceparent"] == told["traceparent"] != other["traceparent"]


async def test_the_access_log_tells_all_but_what_somebody_wrote() -> None:
    """Who asked for what, and how it ended; neither path nor query, for both may hold names."""
    with capture_logs() as logged:
        told, _, _ = await ask(answers(201), ("x-request-id", "mine"))
    (line,) = logged
    assert line.pop("milliseconds") >= 0
    assert line.pop("trace") == told["traceparent"][3:35]
    assert line == {
        "event": "request",
        "log_level": "info",
        "method": "GET",
        "route": "/api/v1/runs/{id}",
        "status": 201,
        "bytes": 8,
        "request_id": "mine",
        "key": "ada",
    }


async def test_who_is_nobody_and_asks_for_nothing_leaves_a_line_too() -> None:
    """Scanners are what an access log is read for."""
    with capture_logs() as logged:
        await ask(answers(401, path=None))
    assert [(line["route"], line["status"], line["key"]) for line in logged] == [(None, 401, None)]
    assert "private" not in str(logged)


async def test_probes_and_whoever_wants_no_log_are_told_to_who_debugs_only() -> None:
    """A probe a second is a hundred thousand lines a day about nothing."""
    with capture_logs() as logged:
        await ask(answers(path="/healthz", dialect="plain"))
        await ask(answers(), access_log=False)
    assert [line["log_level"] for line in logged] == ["debug", "debug"]


async def test_what_breaks_is_an_answer_with_an_id_and_is_counted() -> None:
    """Operators look for 500s first."""

    async def breaks(scope: Scope, _: Receive, __: Send) -> None:
        scope["lucyd.operation"] = Operation("GET", "/api/v1/cost", never, "read", "it", {})
        raise RuntimeError("a bug")

    meter = Meter()
    with capture_logs() as logged:
        told, _, status = await ask(breaks, meter=meter)
    assert status == 500
    assert [line["event"] for line in logged] == ["request_failed", "request"]
    assert told["x-request-id"] == logged[1]["request_id"]
    assert meter.in_flight == 0
    assert 'lucyd_http_requests_total{method="GET",route="/api/v1/cost",status="500"} 1.0' in page(meter)


@pytest.mark.parametrize("route", [None, "/v1/chat/completions"])
async def test_what_breaks_under_v1_is_told_in_the_form_of_openai(route: str | None) -> None:
    """Also where it breaks before anything was found there: a client of OpenAI reads ``error.message``."""

    async def breaks(scope: Scope, _: Receive, __: Send) -> None:
        found = None if route is None else Operation("POST", route, never, "chat", "it", {}, dialect="openai")
        scope["lucyd.operation"] = found
        raise RuntimeError("a bug")

    with capture_logs():
        told, body, status = await whole(breaks, path="/v1/chat/completions")
    assert status == 500
    assert json.loads(body) == {
        "error": {"message": "internal error", "type": "server_error", "param": None, "code": None},
        "lucyd": {"request_id": told["x-request-id"]},
    }
    assert told["x-should-retry"] == "false"


async def test_what_breaks_elsewhere_is_told_in_our_own_form() -> None:
    """With the id under which the log has it, and the agent's name as everywhere."""

    async def breaks(scope: Scope, _: Receive, __: Send) -> None:
        raise RuntimeError("a bug")

    with capture_logs():
        told, body, _ = await whole(breaks)
    assert json.loads(body) == {"error": "internal error", "request_id": told["x-request-id"], "agent": "Lucyd"}


def page(meter: Meter) -> list[str]:
    registry = CollectorRegistry()
    registry.register(meter)
    return generate_latest(registry).decode().splitlines()


async def test_no_name_that_somebody_makes_up_becomes_a_figure() -> None:
    """Else anybody without a key could fill the memory of this process and of Prometheus."""
    meter = Meter()
    for number in range(50):
        await ask(answers(404, path=None), meter=meter, method=f"METHOD{number}")
    lines = [line for line in page(meter) if line.startswith("lucyd_http_requests_total")]
    assert lines == ['lucyd_http_requests_total{method="(other)",route="(none)",status="404"} 50.0']


def test_durations_are_a_histogram_as_prometheus_has_it() -> None:
    """Buckets are cumulative and hold their bound; the count and the sum are told."""
    meter = Meter()
    for seconds in (0.0005, 0.001, 0.02, 400.0):
        meter.ended("GET", "/healthz", 200, seconds)
    told = {line.split(" ")[0]: float(line.split(" ")[1]) for line in page(meter) if not line.startswith("#")}
    labels = 'method="GET",route="/healthz"'
    name = "lucyd_http_request_duration_seconds"
    assert told[f'{name}_bucket{{le="0.001",{labels}}}'] == 2
    assert told[f'{name}_bucket{{le="0.025",{labels}}}'] == 3
    assert told[f'{name}_bucket{{le="300.0",{labels}}}'] == 3
    assert told[f'{name}_bucket{{le="+Inf",{labels}}}'] == told[f"{name}_count{{{labels}}}"] == 4
    assert told[f"{name}_sum{{{labels}}}"] == pytest.approx(400.0215)
