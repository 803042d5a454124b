"""What others read from the bench."""

from typing import Any

import pytest

from bench.plan import LATENCIES_MS, SESSIONS, WORKERS, Plan, full_plan, quick_plan
from bench.report import summary, table

PROMISED = {
    *("throughput", "cpu_ms_per_run", "accept_to_model_ms", "overhead_ms", "stream_hop_ms", "takeover_s"),
    "floor_ratio",
}


def figures(plan: Plan, pace: float) -> dict[str, Any]:
    """As one repeat gives them."""
    spread = {"p50": 1.0, "p99": 2.0, "samples": 100}
    cpu = {"gateway": 1.0, "agent_worker": 2.0, "postgres": 1.5, "load": 0.2, "model_server": 0.3}
    latencies = dict.fromkeys(("accept_to_model_ms", "send_to_model_ms", "overhead_ms", "whole_ms"), spread)
    load = {"runs_per_s": pace, **latencies, "cpu_ms_per_run": cpu, "resident_mb": 200.0}
    return {
        **{cell.name: load for cell in plan.cells},
        **{f"w{workers}-half-load": {**load, "rate": pace / 2} for workers in plan.workers},
        "stream": {"stream_hop_ms": spread},
        "takeover": {"takeover_s": spread},
        "takeover-other-host": {"takeover_s": spread},
        "memory": {"kb_per_open_conversation": 120.0},
        "floor": {"runs_per_s": 400.0},
    }


@pytest.mark.parametrize("plan", [quick_plan(), full_plan()])
def test_every_promised_figure_is_there(plan: Plan) -> None:
    """Whoever reads the file looks for these names."""
    told = summary(plan, [figures(plan, pace) for pace in (100.0, 900.0, 200.0)])
    assert told.keys() >= PROMISED
    assert told["throughput"] == {str(workers): 200.0 for workers in plan.workers}
    assert told["floor_ratio"] == 2.0
    assert told["cpu_ms_per_run"] == {"gateway": 1.0, "agent_worker": 2.0, "postgres": 1.5}
    assert told["takeover_s"].keys() >= {"p50", "p99"}
    assert f"{plan.headline} workers" in table(plan, told)


def test_the_full_plan_is_all_combinations_three_times() -> None:
    """It is what was promised to be measured."""
    plan = full_plan()
    cells = {(cell.workers, cell.sessions, cell.latency_ms) for cell in plan.cells}
    assert cells == {(w, s, ms) for w in WORKERS for s in SESSIONS for ms in LATENCIES_MS}
    assert plan.repeats == 3
    assert plan.budget < 15 * 60
