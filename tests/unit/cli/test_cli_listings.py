"""Tables and lists of the command line."""

from typing import Any

from cli.rules.cost_report import cost_table
from cli.rules.history_view import history_pieces
from cli.rules.monitor_view import monitor_pieces, services_table, sessions_in_hand
from cli.rules.session_list import find_session, newest_of_terminal, sessions_table
from cli.rules.table import Column, Table, plain_lines
from tests.fake_gateway import COST, HISTORY, MONITOR, OTHER_SESSION, SESSION, SESSIONS


def test_columns_of_the_plain_table_are_aligned() -> None:
    """It is read in logs, and cut with awk."""
    table = Table((Column("A"), Column("Number", right=True)), [("long name", "1")], total=("Total", "12"))
    assert plain_lines(table) == ["A          Number", "─" * 17, "long name       1", "─" * 17, "Total          12"]


def test_cost_has_the_columns_of_the_original() -> None:
    """Scripts of its users name them."""
    table = cost_table(COST)
    assert table is not None
    assert [each.name for each in table.columns] == ["Model", "Input", "Output", "Cache", "Cost"]
    assert table.rows == [("fake-model-1", "1,000", "200", "5,000", "$1.5000")]
    assert table.total is not None
    assert table.total[0] == "Total"
    assert cost_table({"models": []}) is None


def test_money_of_two_currencies_is_not_added_up() -> None:
    """A sum of dollars and euros is no amount of anything."""
    models = [{"model": "a", "cost_usd": 1, "currency": "USD"}, {"model": "b", "cost_usd": 2, "currency": "EUR"}]
    table = cost_table({"models": models})
    assert table is not None
    assert table.total is not None
    assert table.total[-1] == "$1.0000 + €2.0000"


def test_sessions_have_the_columns_of_the_original_the_dearest_first() -> None:
    """As above; and the dearest is what one looks for."""
    table = sessions_table(SESSIONS)
    names = [each.name for each in table.columns]
    assert names[:7] == ["Contact", "Session ID", "Context", "Msgs", "Cmp", "Cost", "Logs"]
    assert [row[1] for row in table.rows] == [SESSION, OTHER_SESSION]
    assert table.rows[0][2:7] == ("12,345 (6%)", "12", "2", "$1.2500", "2K")


def test_a_session_is_found_by_id_contact_or_conversation() -> None:
    """People remember names, programs ids."""
    for wanted in (OTHER_SESSION, "claudio", "telegram:7"):
        found = find_session(SESSIONS, wanted)
        assert found is not None
        assert found["session_id"] == OTHER_SESSION
    assert find_session(SESSIONS, "nobody") is None


def test_the_terminals_session_is_its_newest() -> None:
    """Resets leave older ones behind."""
    older: dict[str, Any] = {**SESSIONS[1], "session_id": "older", "created_at": "2020-01-01T00:00:00Z"}
    newest = newest_of_terminal([*SESSIONS, older])
    assert newest is not None
    assert newest["session_id"] == SESSION
    assert newest_of_terminal(SESSIONS[:1]) is None
    assert newest_of_terminal(SESSIONS, "cli") == newest
    assert newest_of_terminal(SESSIONS, "Ada") is None
    assert newest_of_terminal([{"session_id": "x", "conversation": "cli:Ada"}], "Ada") is not None


def history(*, full: bool) -> str:
    pieces = history_pieces(HISTORY, contact="cli", session_id=SESSION, agent="Lucyd", full=full)
    return "".join(piece.text for piece in pieces)


def test_history_shows_messages_and_in_full_the_tools_too() -> None:
    """Most readers want the talk; whoever looks for a fault wants everything."""
    assert "cli:\n  hello" in history(full=False)
    assert "Lucyd:\n  Hi there." in history(full=False)
    assert "read" not in history(full=False)
    assert "a note" not in history(full=False)
    assert '⚙ read {"path": "MEMORY.md"}' in history(full=True)
    assert "a note" in history(full=True)


def monitor(now: float, **changes: object) -> str:
    return "".join(piece.text for piece in monitor_pieces({**MONITOR, **changes}, now))


def test_the_monitor_tells_state_contact_model_and_turns() -> None:
    """The lines of the original."""
    turns = [{"duration_ms": 3200, "output_tokens": 156, "stop_reason": "tool_use", "tools": ["read", "exec"]}]
    told = monitor(1000.0, turns=turns, turn_started_at=997.0, updated_at=999.0)
    assert told.startswith("Lucyd — thinking (turn 2, 3.0 s elapsed)\n")
    assert "Contact:  cli\n" in told
    assert "  T1     3.2s   156 tok  tool_use → read, exec\n" in told
    assert "⚠" not in told


def test_the_monitor_warns_when_nothing_was_heard_for_a_minute() -> None:
    """A stuck worker looks busy for ever."""
    assert "⚠ last update 1 min 30 s ago" in monitor(1090.0, updated_at=1000.0)
    assert "⚠" not in monitor(1090.0, updated_at=1000.0, state="idle")
    assert monitor(0.0, state="unknown") == "Lucyd — no monitor data\n"


def test_the_monitor_lists_processes_and_what_else_is_busy() -> None:
    """Many conversations at once are the point of this system."""
    table = services_table(MONITOR, 1_767_225_605.0)
    assert table is not None
    assert table.rows == [("gateway", "here", "42", "ready", "1 ms", "47.7M", "5.0 s ago")]
    assert sessions_in_hand(MONITOR) is None
    busy = [{"conversation": name, "state": "tools", "turn": "1", "tools_in_flight": "exec"} for name in "ab"]
    table = sessions_in_hand({"sessions": [*busy, {"conversation": "c", "state": "idle"}]})
    assert table is not None
    assert [row[0] for row in table.rows] == ["a", "b"]
