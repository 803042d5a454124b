"""What goes on right now, as lines: the busiest conversation first, then the others, then the processes."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.rules.amounts import duration, number, size, whole
from cli.rules.clean_text import one_line
from cli.rules.moments import seconds_of
from cli.rules.pieces import Piece
from cli.rules.table import Column, Table

STALE_AFTER = 60
"""Seconds without a sign of life of a conversation that should show some."""

_SESSIONS = (Column("Conversation"), Column("State"), Column("Turn", right=True), Column("Model"), Column("Tools"))
_SERVICES = (
    Column("Service"),
    Column("Host"),
    Column("PID", right=True),
    Column("State"),
    Column("Lag", right=True),
    Column("Memory", right=True),
    Column("Seen", right=True),
)


def monitor_pieces(monitor: Mapping[str, Any], now: float) -> list[Piece]:
    """Head, contact, model and turns; ``now`` in seconds since 1970."""
    agent = one_line(monitor.get("agent") or "Lucyd")
    state = str(monitor.get("state") or "unknown")
    if state == "unknown":
        return [Piece(f"{agent} — no monitor data\n", "strong")]
    head = f"{agent} — {_state(monitor, state, now)}"
    pieces = [Piece(f"{head}\n{'─' * max(27, len(head))}\n", "strong")]
    if state != "idle":
        known = (("Contact", monitor.get("contact")), ("Model", monitor.get("model")))
        lines = [f"{name + ':':<10}{one_line(value)}\n" for name, value in known if value]
        tools = tool_names(monitor.get("tools_in_flight"))
        lines += [f"{'Tools:':<10}{tools}\n"] if tools else []
        pieces.append(Piece("".join(lines), "reply"))
    pieces += [Piece(line, "reply") for line in _turns(monitor, state)]
    silent = now - (seconds_of(monitor.get("updated_at")) or now)
    if state != "idle" and silent > STALE_AFTER:
        pieces.append(
            Piece(f"\n⚠ last update {duration(silent)} ago — it may be stuck or its worker is gone\n", "warning")
        )
    return pieces


def _state(monitor: Mapping[str, Any], state: str, now: float) -> str:
    turn = whole(monitor.get("turn"))
    if not turn or state == "idle":
        return state
    started = seconds_of(monitor.get("turn_started_at"))
    elapsed = f", {duration(max(0.0, now - started))} elapsed" if started and state == "thinking" else ""
    return f"{state} (turn {turn}{elapsed})"


def _turns(monitor: Mapping[str, Any], state: str) -> list[str]:
    turns: Sequence[Mapping[str, Any]] = _list(monitor.get("turns"))
    lines = []
    for place, turn in enumerate(turns, 1):
        reason, tools = one_line(turn.get("stop_reason", "")), tool_names(turn.get("tools"))
        told = f"{reason} → {tools}" if tools else reason
        if place == len(turns) and state == "tools" and monitor.get("tools_in_flight"):
            told += " (running)"
        seconds = number(turn.get("duration_ms")) / 1000
        lines.append(
            f"  T{place:<3} {seconds:>5.1f}s {whole(turn.get('output_tokens')):>5} tok  {told}".rstrip() + "\n"
        )
    return lines


def sessions_in_hand(monitor: Mapping[str, Any]) -> Table | None:
    """The conversations in which something goes on; ``None`` when there is at most one, which the head tells."""
    busy = [each for each in _list(monitor.get("sessions")) if str(each.get("state") or "idle") != "idle"]
    if len(busy) < 2:
        return None
    rows = [
        (
            one_line(each.get("conversation") or each.get("contact") or each.get("session_id") or "?", 40),
            one_line(each.get("state")),
            str(whole(each.get("turn"))),
            one_line(each.get("model") or "", 32),
            tool_names(each.get("tools_in_flight")),
        )
        for each in busy
    ]
    return Table(_SESSIONS, rows)


def services_table(monitor: Mapping[str, Any], now: float) -> Table | None:
    """The processes that say they live."""
    services = _list(monitor.get("services"))
    if not services:
        return None
    rows = [
        (
            one_line(each.get("service", "?")),
            one_line(each.get("host", ""), 24),
            one_line(each.get("pid", "")),
            one_line(each.get("state", "")),
            f"{whole(each.get('loop_lag_ms'))} ms",
            size(each.get("rss_bytes")),
            _seen(each.get("observed_at"), now),
        )
        for each in sorted(services, key=lambda each: (str(each.get("service")), str(each.get("id"))))
    ]
    return Table(_SERVICES, rows)


def _seen(observed_at: object, now: float) -> str:
    seconds = seconds_of(observed_at)
    return "?" if seconds is None else f"{duration(max(0.0, now - seconds))} ago"


def tool_names(tools: object) -> str:
    """The tools of a list or of a text with commas."""
    names = tools.split(",") if isinstance(tools, str) else tools if isinstance(tools, list) else ()
    return ", ".join(name for name in (one_line(each, 40) for each in names) if name)


def _list(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()
