"""What the proofs share: a model that counts what it was asked, and looks at what stands in the stores."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import psycopg
import redis

from shared.messages import routes
from shared.messages.run_events import TERMINAL_EVENTS
from tests.scripted_model_server import Asked, Hang, Say, Step, Use

_NAMED = re.compile(r"#(\S+) (\w+)")


def ask(key: str, kind: str) -> str:
    """The message that gets an answer of this kind; for ``act`` and ``second`` a command runs before it."""
    return f"#{key} {kind}, please."


def answer(key: str) -> str:
    """What the model says in the end."""
    return f"Answer {key}. Nothing else is to be said."


ACTS = "acts.txt"


class CountingModel:
    """The default script of the model server. Its commands append their key to ``ACTS`` in the workspace;
    an ``act`` also takes a while.

    ``hold`` names the calls, by kind and turn, of which each key's first hangs for so many seconds. ``asked`` holds the
    ids of the calls that were made, by key and turn.
    """

    def __init__(self, *, hold: Mapping[tuple[str, int], float] | None = None, act_takes: float = 0) -> None:
        self.asked: dict[tuple[str, int], list[str]] = {}
        self._hold = dict(hold or {})
        self._act_takes = act_takes

    def __call__(self, asked: Asked) -> Step:
        """Choose a step."""
        found = _NAMED.search(asked.text)
        if found is None:
            return Say("I don't know what you mean.")
        key, kind = found[1], found[2]
        calls = self.asked.setdefault((key, asked.turn), [])
        if asked.call_id not in calls:
            calls.append(asked.call_id)
            if len(calls) == 1 and (seconds := self._hold.get((kind, asked.turn))) is not None:
                return Hang(seconds)
        if kind in {"act", "second"} and asked.turn == 0:
            then = f"; sleep {self._act_takes:g}" if kind == "act" and self._act_takes else ""
            return Use([("exec", {"command": f"echo {key} >> {ACTS}{then}"})], text="Let me see.")
        return Say(answer(key))

    def made(self, kinds: Iterable[str], turn: int) -> int:
        """How many calls of this turn were made by keys that begin so."""
        begin = tuple(kinds)
        return sum(len(calls) for (key, of), calls in list(self.asked.items()) if of == turn and key.startswith(begin))


def acted(workspace: Path) -> Mapping[str, int]:
    """How often each key was acted out."""
    acts = workspace / ACTS
    return Counter(acts.read_text("utf-8").split()) if acts.exists() else {}


def rows(database_url: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of one query, over a connection of its own."""
    with psycopg.connect(database_url, connect_timeout=5) as database:
        return database.execute(cast("Any", query), parameters).fetchall()


def check_histories(database_url: str) -> int:
    """Each session is one line of turns without gaps, each call with its results, the runs in their order; how many."""
    lines: dict[str, list[tuple[int, str, str, Mapping[str, Any]]]] = {}
    for session, ordinal, run, role, body in rows(
        database_url, "select session::text, ordinal, run::text, role, body from messages order by session, ordinal"
    ):
        lines.setdefault(session, []).append((ordinal, run, role, body))
    places = dict(rows(database_url, "select id::text, ordinal from runs"))
    for session, line in lines.items():
        assert [ordinal for ordinal, *_ in line] == list(range(1, len(line) + 1)), session
        _check_turns(session, [(run, role, body) for _, run, role, body in line])
        seen = [places[run] for _, run, role, _ in line if role == "user"]
        assert seen == sorted(set(seen)), f"{session}: runs out of order or answered twice"
    return len(lines)


def _check_turns(session: str, line: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
    owing: list[str] = []
    before, run = "assistant", ""
    for current, role, body in line:
        if owing:
            assert role == "tool_results", f"{session}: a call without a result"
            assert [result["tool_use_id"] for result in body["results"]] == owing
            owing = []
        elif role == "user":
            assert before == "assistant", f"{session}: an unanswered message"
            run = current
        else:
            assert (role, before) == ("assistant", "user") or before == "tool_results", f"{session}: {before}, {role}"
            owing = [call["id"] for call in body.get("tool_calls") or ()]
        assert current == run, f"{session}: rows of two runs between each other"
        before = role
    assert not owing
    assert before == "assistant"


def ends_told(redis_url: str, runs: Iterable[str]) -> Mapping[str, int]:
    """How many ends stand on the stream of each run."""
    told = {}
    with redis.Redis.from_url(redis_url, decode_responses=True, socket_timeout=10) as client:
        for run in runs:
            entries = cast("list[tuple[str, dict[str, str]]]", client.xrange(routes.run_events(cast("Any", run))))
            told[run] = sum(fields["type"] in TERMINAL_EVENTS for _, fields in entries)
    return told


def everything(database_url: str, *, without_workers: Iterable[str] = ()) -> Mapping[str, list[str]]:
    """All rows of all tables as text, but the workers' own rows and what the audit says of these workers.

    Nor the suspicion against runs: a worker that turns out to be alive takes its own back.
    """
    spared = list(without_workers)
    tables = [
        name
        for (name,) in rows(
            database_url, "select tablename from pg_tables where schemaname = 'public' and tablename <> 'workers'"
        )
    ]
    found = {}
    for table in sorted(tables):
        query = f"select (to_jsonb(t) - 'suspected' - 'suspected_by')::text from \"{table}\" t"  # noqa: S608 - its own name
        if table == "events":
            query += " where not coalesce(payload ->> 'worker', '') = any(%s)"
            found[table] = sorted(row for (row,) in rows(database_url, query, spared))
        else:
            found[table] = sorted(row for (row,) in rows(database_url, query))
    return found


def everything_told(redis_url: str, runs: Iterable[str]) -> Mapping[str, str]:
    """The streams and futures of these runs, and what operators see of owners and conversations."""
    with redis.Redis.from_url(redis_url, decode_responses=True, socket_timeout=10) as client:
        told: dict[str, Any] = {}
        for run in runs:
            told[f"events {run}"] = client.xrange(routes.run_events(cast("Any", run)))
            told[f"result {run}"] = client.get(routes.run_result(cast("Any", run)))
        for key in sorted(cast("list[str]", client.keys("lucyd:owner:*"))):
            told[key] = client.get(key)
        for key in sorted(cast("list[str]", client.keys("lucyd:monitor:session:*"))):
            told[key] = client.hgetall(key)
        told["inbound"] = client.xrange(routes.INBOUND)
    return {name: json.dumps(value, sort_keys=True) for name, value in told.items()}


def percentile(figures: Sequence[float], share: float) -> float:
    """The figure that this share of all does not exceed."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
