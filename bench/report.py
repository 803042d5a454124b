"""The table that is printed and the JSON that is kept. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import median_tree, rounded
from bench.plan import MOST_SESSIONS, SLOW_MS, Cell, Plan

HARNESS = ("load", "model_server")
"""Processes of the bench itself: they share the machine, but are not Lucyd."""

Figures = Mapping[str, Mapping[str, Any]]
"""Figures by the name of the piece of work."""


def summary(plan: Plan, repeats: Sequence[Figures]) -> dict[str, Any]:
    """The medians of all repeats under the names that others read."""
    medians: dict[str, Any] = median_tree([dict(repeat) for repeat in repeats])
    saturated = Cell(plan.headline, MOST_SESSIONS, SLOW_MS, 0).name
    eager = Cell(plan.headline, MOST_SESSIONS, 0, 0).name
    single = Cell(plan.headline, 1, 0, 0).name
    cpu = medians[saturated]["cpu_ms_per_run"]
    half = medians[f"w{plan.headline}-half-load"]
    throughput = {
        str(workers): medians[Cell(workers, MOST_SESSIONS, SLOW_MS, 0).name]["runs_per_s"] for workers in plan.workers
    }
    whole = {
        "throughput": throughput,
        "cpu_ms_per_run": {name: ms for name, ms in cpu.items() if name not in HARNESS},
        "accept_to_model_ms": half["accept_to_model_ms"],
        "overhead_ms": medians[single]["overhead_ms"],
        "stream_hop_ms": medians["stream"]["stream_hop_ms"],
        "takeover_s": medians["takeover"]["takeover_s"],
        "floor_ratio": medians["floor"]["runs_per_s"] / medians[eager]["runs_per_s"],
        "takeover_other_host_s": medians["takeover-other-host"]["takeover_s"],
        "send_to_model_ms": half["send_to_model_ms"],
        "half_load_runs_per_s": half["rate"],
        "kb_per_open_conversation": medians["memory"]["kb_per_open_conversation"],
        "floor_runs_per_s": medians["floor"]["runs_per_s"],
        "harness_cpu_ms_per_run": {name: cpu[name] for name in HARNESS},
        "workers_of_single_figures": plan.headline,
        "repeats": len(repeats),
        "work": medians,
    }
    return dict(rounded(whole))


def table(plan: Plan, told: Mapping[str, Any]) -> str:
    """The figures for people."""
    work = told["work"]
    lines = [
        f"{'workers':>7} {'sessions':>8} {'model':>6} {'runs/s':>8}   {'accept->model':>15} "
        f"{'overhead':>17}   {'cpu/run':>9}   resident",
        f"{'':>7} {'':>8} {'':>6} {'':>8}   {'p50 / p99 ms':>15} {'p50 / p99 ms':>17}",
    ]
    for cell in plan.cells:
        figures = work[cell.name]
        cpu = sum(ms for name, ms in figures["cpu_ms_per_run"].items() if name not in HARNESS)
        lines.append(
            f"{cell.workers:>7} {cell.sessions:>8} {cell.latency_ms / 1000:>4g} s {figures['runs_per_s']:>8.1f}   "
            f"{_pair(figures['accept_to_model_ms']):>15} {_pair(figures['overhead_ms']):>17}   {cpu:>6.2f} ms   "
            f"{figures['resident_mb']:.0f} MB"
        )
    cpu = ", ".join(f"{name} {ms:g}" for name, ms in told["cpu_ms_per_run"].items())
    harness = ", ".join(f"{name} {ms:g}" for name, ms in told["harness_cpu_ms_per_run"].items())
    at_half = f"{told['half_load_runs_per_s']:.0f} runs/s, half of the saturated load at 0.2 s"
    lines += [
        "",
        f"with {plan.headline} workers, p50 / p99; medians of {told['repeats']}:",
        f"  accept -> model called   {_pair(told['accept_to_model_ms'])} ms   (at {at_half})",
        f"  client's send -> model   {_pair(told['send_to_model_ms'])} ms   (the same)",
        f"  overhead                 {_pair(told['overhead_ms'])} ms   (one session, a model of 0 s)",
        f"  stream hop               {_pair(told['stream_hop_ms'])} ms",
        f"  takeover                 {_pair(told['takeover_s'])} s    (kill -9)",
        f"  takeover, other host     {_pair(told['takeover_other_host_s'])} s    (only the beat tells)",
        f"  memory                   {told['kb_per_open_conversation']:.0f} kB for a conversation in hand",
        f"  floor                    {told['floor_runs_per_s']:.0f} runs/s, {told['floor_ratio']:.2f} x ours at 0 s",
        f"  CPU, ms for a run        {cpu}",
        f"  of the bench itself      {harness}",
    ]
    return "\n".join(lines)


def _pair(figure: Mapping[str, float]) -> str:
    return (
        f"{figure['p50']:.1f} / {figure['p99']:.1f}"
        if figure["p99"] >= 1
        else f"{figure['p50']:.2f} / {figure['p99']:.2f}"
    )
