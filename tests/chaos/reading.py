"""Reads the tables and the streams into a history."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import psycopg
import redis
from psycopg.rows import dict_row

from shared.messages import routes
from tests.chaos.boundaries import InLine
from tests.chaos.history import Act, CostRow, EffectRow, Fenced, History, MessageRow, ReservationRow, RunRow, Told
from tests.chaos.scripts import key_of

_OPEN = """
select (select count(*) from runs where state in ('accepted', 'running', 'waiting'))
     + (select count(*) from runs where finished_at is not null and published_at is null)
     + (select count(*) from reservations where settled_at is null) as open"""


_LATELY = """
select id::text, conversation, ordinal, extract(epoch from accepted_at)::float8,
  extract(epoch from finished_at)::float8, extract(epoch from published_at)::float8
from runs where kind = 'message' and (finished_at is null or finished_at > now() - interval '30 seconds')"""


def is_idle(database_url: str) -> bool:
    """Tell whether no run is open, no end unpublished and no call unsettled. Raises ``psycopg.OperationalError``."""
    with psycopg.connect(database_url, connect_timeout=3) as database:
        return database.execute(_OPEN).fetchone() == (0,)


def all_posted(database_url: str) -> bool:
    """Tell whether every webhook was sent; what waits for its next try is hurried. Raises ``OperationalError``."""
    with psycopg.connect(database_url, connect_timeout=3, autocommit=True) as database:
        database.execute("update webhooks set due_at = now() where state = 'pending' and due_at > now()")
        open_ = "select count(*) from webhooks where state in ('pending', 'sending')"
        return database.execute(open_).fetchone() == (0,)


def epochs_of(database_url: str) -> Mapping[str, int]:
    """The epochs of all conversations now. Raises ``psycopg.OperationalError``."""
    with psycopg.connect(database_url, connect_timeout=3) as database:
        return dict(database.execute("select key, epoch from conversations").fetchall())


def lines_of_now(database_url: str, mono: float) -> Sequence[InLine]:
    """The messages that are open, or ended lately. Raises ``psycopg.OperationalError``."""
    with psycopg.connect(database_url, connect_timeout=3) as database:
        return [
            InLine(run, conversation, ordinal, accepted + mono, _mono(ended, mono), _mono(told, mono))
            for run, conversation, ordinal, accepted, ended, told in database.execute(_LATELY).fetchall()
        ]


def in_line(history: History) -> Sequence[InLine]:
    """All messages of a history."""
    return [
        InLine(
            run.id,
            run.conversation,
            run.ordinal,
            run.accepted_at + history.mono,
            _mono(run.finished_at, history.mono),
            _mono(run.published_at, history.mono),
        )
        for run in history.runs
        if run.kind == "message"
    ]


def read_tables(database_url: str, mono: float) -> History:
    """Everything that stands in Postgres; ``mono`` as in ``History``."""
    with psycopg.connect(database_url, row_factory=dict_row) as database:

        def rows(query: str) -> list[dict[str, Any]]:
            return database.execute(cast("Any", query)).fetchall()

        return History(
            runs=tuple(_run(row) for row in rows("select * from runs order by accepted_at")),
            messages=tuple(_message(row) for row in rows("select * from messages order by session, ordinal")),
            effects=tuple(_effect(row) for row in rows("select * from effects")),
            reservations=tuple(_reservation(row) for row in rows("select * from reservations")),
            costs=tuple(_cost(row) for row in rows("select * from costs")),
            fenced=tuple(
                Fenced(row["pid"], row["ended_at"].timestamp() + mono)
                for row in rows("select pid, ended_at from workers where state = 'fenced'")
            ),
            last_ordinals={
                row["key"]: row["last_ordinal"] for row in rows("select key, last_ordinal from conversations")
            },
            webhooks=tuple((str(row["run"]), row["state"]) for row in rows("select run, state from webhooks")),
            mono=mono,
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


def read_acts(file: Path) -> tuple[Act, ...]:
    """Each time that a key was acted out."""
    begun: dict[str, list[float]] = defaultdict(list)
    ended: dict[str, list[float]] = defaultdict(list)
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        key, what, at = line.split()
        (begun if what == "begin" else ended)[key].append(float(at))
    return tuple(
        Act(key, began, end)
        for key, times in begun.items()
        for began, end in zip_longest(times, ended[key][: len(times)])
    )


def read_stamps(file: Path) -> Mapping[str, tuple[str, ...]]:
    """Under which keys each ask was stamped."""
    found: dict[str, tuple[str, ...]] = {}
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        key, under = line.split()
        found[key] = (*found.get(key, ()), under)
    return found


def read_inbound(redis_url: str) -> tuple[str, ...]:
    """What is left on ``lucyd:inbound``."""
    with redis.Redis.from_url(redis_url, decode_responses=True, socket_timeout=10) as client:
        return tuple(entry for entry, _ in cast("list[tuple[str, Any]]", client.xrange(routes.INBOUND)))


def _mono(unix: float | None, mono: float) -> float:
    return float("inf") if unix is None else unix + mono


def _run(row: Mapping[str, Any]) -> RunRow:
    return RunRow(
        str(row["id"]), row["conversation"], row["ordinal"], row["kind"], row["state"], row["epoch"], row["attempts"],
        row["terminal"], row["outcome"], row["published_at"] is not None, row["accepted_at"].timestamp(),
        key_of(str(row["message"].get("text", ""))),
        row["finished_at"].timestamp() if row["finished_at"] is not None else None,
        row["published_at"].timestamp() if row["published_at"] is not None else None,
    )  # fmt: skip


def _message(row: Mapping[str, Any]) -> MessageRow:
    calls = tuple(call["id"] for call in row["body"].get("tool_calls") or ())
    results = tuple(result["tool_use_id"] for result in row["body"].get("results") or ())
    return MessageRow(
        str(row["session"]), row["ordinal"], str(row["run"]), row["role"], row["dropped"], calls, results,
        str(row["body"].get("text") or ""),
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
