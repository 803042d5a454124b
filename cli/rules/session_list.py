"""Sessions as the gateway lists them: the table, and which one a person means."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.rules.amounts import count, money, number, size, whole
from cli.rules.clean_text import one_line
from cli.rules.moments import local_time, seconds_of
from cli.rules.table import Column, Table

Session = Mapping[str, Any]

_COLUMNS = (
    Column("Contact"),
    Column("Session ID"),
    Column("Context", right=True),
    Column("Msgs", right=True),
    Column("Cmp", right=True),
    Column("Cost", right=True),
    Column("Logs", right=True),
    Column("Since"),
)


def sessions_table(sessions: Sequence[Session]) -> Table:
    """The dearest first."""
    ordered = sorted(sessions, key=lambda each: number(each.get("cost_usd", each.get("cost"))), reverse=True)
    return Table(_COLUMNS, [_row(each) for each in ordered], title=f"Active Sessions ({len(sessions)})")


def _row(session: Session) -> tuple[str, ...]:
    context = count(session.get("context_tokens"))
    if session.get("context_pct") is not None:
        context += f" ({whole(session['context_pct'])}%)"
    cost = session.get("cost", session.get("cost_usd"))
    return (
        one_line(session.get("contact", "?"), 32),
        str(session.get("session_id", "?")),
        context,
        count(session.get("message_count")),
        count(session.get("compaction_count")),
        money(cost, session.get("currency")),
        size(session.get("log_bytes")),
        local_time(session.get("created_at")),
    )


def newest_of_terminal(sessions: Sequence[Session], sender: str | None = None) -> Session | None:
    """The session that this terminal talks in under this name; ``None`` when nothing was said yet."""
    conversation = "cli" if sender in {None, "cli"} else f"cli:{sender}"
    ours = [each for each in sessions if each.get("conversation") == conversation]
    return max(ours, key=lambda each: seconds_of(each.get("created_at")) or 0.0, default=None)


def find_session(sessions: Sequence[Session], wanted: str) -> Session | None:
    """The session with this id, or the newest of this contact or conversation (upper and lower case are one)."""
    name = wanted.casefold()
    for key in ("session_id", "contact", "conversation"):
        found = [each for each in sessions if str(each.get(key, "")).casefold() == name]
        if found:
            return max(found, key=lambda each: seconds_of(each.get("created_at")) or 0.0)
    return None
