"""What was given up, as a table and as one page."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.rules.amounts import count, whole
from cli.rules.clean_text import one_line
from cli.rules.moments import local_time
from cli.rules.pieces import Piece
from cli.rules.table import Column, Table

Letter = Mapping[str, Any]

_COLUMNS = (
    Column("ID"),
    Column("Kind"),
    Column("State"),
    Column("When"),
    Column("Tries", right=True),
    Column("Conversation"),
    Column("Reason"),
)


def dead_table(letters: Sequence[Letter]) -> Table:
    """In the gateway's order: the newest first."""
    return Table(_COLUMNS, [_row(each) for each in letters], title=f"Given up ({len(letters)})")


def _row(letter: Letter) -> tuple[str, ...]:
    return (
        one_line(letter.get("id", "?")),
        one_line(letter.get("kind", "?"), 12),
        one_line(letter.get("state", "?"), 12),
        local_time(letter.get("at")),
        count(letter.get("attempts")),
        one_line(letter.get("conversation", "?"), 32),
        one_line(letter.get("reason") or "?", 60),
    )


def dead_pieces(letter: Letter) -> list[Piece]:
    """Everything that is known of one, and what can be done about it."""
    id, kind = one_line(letter.get("id", "?")), one_line(letter.get("kind", "?"), 12)
    run = letter.get("run_id")
    known = (
        ("State", letter.get("state")),
        ("Reason", letter.get("reason")),
        ("When", local_time(letter.get("at"))),
        ("Tries", whole(letter.get("attempts"))),
        ("Conversation", letter.get("conversation")),
        ("About", letter.get("about")),
        ("Run", run),
        ("Last worker", letter.get("last_worker")),
        ("Last step", letter.get("last_step")),
        ("Retried as", letter.get("retried_as")),
    )
    lines = [f"{name + ':':<14}{one_line(value, 500)}\n" for name, value in known if value is not None]
    pieces = [Piece(f"The {kind} {id}\n", "strong"), Piece("".join(lines), "reply")]
    if letter.get("state") in {"dead", "failed", "in_doubt"}:
        pieces.append(Piece(f"\nlucyd dead retry {id}\nlucyd dead drop {id}\n", "aside"))
    if run:
        pieces.append(Piece(f"lucyd why {one_line(run)}\n", "aside"))
    return pieces


def retried_sentence(answer: Mapping[str, Any]) -> str:
    """What was done about it."""
    if answer.get("run_id"):
        return f"The message is tried again as run {one_line(answer['run_id'])}."
    return f"The {one_line(answer.get('kind', 'message'), 12)} goes out again now."
