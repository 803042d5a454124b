"""Reads the tables and the streams into a history."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import psycopg
import redis
from psycopg.rows import dict_row

from shared.messages import routes
from tests.chaos.history import CostRow, EffectRow, History, MessageRow, ReservationRow, RunRow, Told
from tests.chaos.scripts import key_of

_OPEN = """
select (select count(*) from runs where state in ('accepted', 'running', 'waiting'))
     + (select count(*) from runs where finished_at is not null and published_at is null)
     + (select count(*) from reservations where settled_at is null) as open"""


def is_idle(database_url: str) -> bool:
    """Tell whether no run is open, no end unpublished and no call unsettled. Raises ``psycopg.OperationalError``."""
    with psycopg.connect(database_url, connect_timeout=3) as database:
        return database.execute(_OPEN).fetchone() == (0,)


def epochs_of(database_url: str) -> Mapping[str, int]:
    """The epochs of all conversations now. Raises ``psycopg.OperationalError``."""
    with psycopg.connect(database_url, connect_timeout=3) as database:
        return dict(database.execute("select key, epoch from conversations").fetchall())


def read_tables(database_url: str) -> History:
    """Everything that stands in Postgres."""
    with psycopg.connect(database_url, row_factory=dict_row) as database:

        def rows(query: str) -> list[dict[str, Any]]:
            return database.execute(cast("Any", query)).fetchall()

        return History(
            runs=tuple(_run(row) for row in rows("select * from runs order by accepted_at")),
            messages=tuple(_message(row) for row in rows("select * from messages order by session, ordinal")),
            effects=tuple(_effect(row) for row in rows("select * from effects")),
            reservations=tuple(_reservation(row) for row in rows("select * from reservations")),
            costs=tuple(_cost(row) for row in rows("select * from costs")),
            fenced=len(rows("select id from workers where state = 'fenced'")),
            owned=tuple(row["key"] for row in rows("select key from conversations where owner is not null")),
        )


def read_streams(redis_url: str, history: History) -> Mapping[str, tuple[Told, ...]]:
    """The streams of all runs that carry a message."""
    streams = {}
    with redis.Redis.from_url(redis_url, decode_responses=True, socket_timeout=10) as client:
        for run in history.runs:
            if run.kind == "message":
                entries = cast(
                    "list[tuple[str, dict[str, str]]]", client.xrange(routes.run_events(cast("Any", run.id)))
                )
                told = (Told(entry, fields["type"], json.loads(fields["data"])) for entry, fields in entries)
                streams[run.id] = tuple(told)
    return streams


def read_acts(file: Path) -> Mapping[str, int]:
    """How often each key was acted out."""
    return Counter(file.read_text("utf-8").split()) if file.exists() else {}


def _run(row: Mapping[str, Any]) -> RunRow:
    return RunRow(
        str(row["id"]), row["conversation"], row["ordinal"], row["kind"], row["state"], row["epoch"], row["attempts"],
        row["terminal"], row["outcome"], row["published_at"] is not None, row["accepted_at"].timestamp(),
        key_of(str(row["message"].get("text", ""))),
    )  # fmt: skip


def _message(row: Mapping[str, Any]) -> MessageRow:
    calls = tuple(call["id"] for call in row["body"].get("tool_calls") or ())
    results = tuple(result["tool_use_id"] for result in row["body"].get("results") or ())
    return MessageRow(
        str(row["session"]), row["ordinal"], str(row["run"]), row["role"], row["dropped"], calls, results
    )  # fmt: skip


def _effect(row: Mapping[str, Any]) -> EffectRow:
    succeeded = row["result"] is not None and not row["result"].get("is_error", False)
    return EffectRow(str(row["run"]), row["tool"], row["state"], succeeded)


def _reservation(row: Mapping[str, Any]) -> ReservationRow:
    return ReservationRow(
        str(row["call_id"]), str(row["worker"]), str(row["run"]), row["conversation"], row["epoch"], row["worst_case"],
        row["settled_at"] is not None,
    )  # fmt: skip


def _cost(row: Mapping[str, Any]) -> CostRow:
    kinds = ("input", "output", "cache_read", "cache_write")
    tokens, rates = [row[f"{kind}_tokens"] for kind in kinds], [row[f"rate_{kind}"] for kind in kinds]
    return CostRow(
        str(row["call_id"]),
        (tokens[0], tokens[1], tokens[2], tokens[3]),
        (rates[0], rates[1], rates[2], rates[3]),
        row["cost"],
        row["estimated"],
    )
