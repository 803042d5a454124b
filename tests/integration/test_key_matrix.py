"""Every operation of the gateway, asked without a key, with keys that are not good, that may not, and that are others'.

The operations are collected from the code, so that one that is new stands in the matrix from its first day.
"""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pytest

from services.gateway import edge as gateway_edge
from services.gateway.edge.operation import Operation
from shared.domain.api_key import ALL_SCOPES
from shared.ids import new_id
from tests.api_keys import bearer, make_key, new_secret, revoke_key
from tests.stack import TOKEN, Stack, client, open_stack

PRIVATE = "a private word"
BARRED = frozenset({401, 403, 429})
TOML = """
[agent]
name = "Testbert"
[http]
failed_login_limit = 0
[run]
wait_seconds = 0.2
"""


def every_operation() -> list[Operation]:
    """What each class of the gateway's edge offers; named without anything that the class needs."""
    found: list[Operation] = []
    for module in pkgutil.iter_modules(gateway_edge.__path__):
        edge = import_module(f"{gateway_edge.__name__}.{module.name}")
        for each in vars(edge).values():
            if inspect.isclass(each) and each.__module__ == edge.__name__ and hasattr(each, "operations"):
                found += object.__new__(each).operations()
    return found


OPERATIONS = every_operation()
CLOSED = [operation for operation in OPERATIONS if operation.needs is not None]
OPEN = [operation for operation in OPERATIONS if operation.needs is None]
ABOUT_ONE = [operation for operation in CLOSED if not operation.is_fixed]
LOOKING = [operation for operation in CLOSED if operation.is_fixed and operation.method == "GET"]


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, TOML) as opened:
        yield opened


def path_of(operation: Operation, id: object) -> str:
    return re.sub(r"\{\w+(?::path)?\}", str(id), operation.path)


def ask(http: httpx2.Client, operation: Operation, headers: dict[str, str], id: object = "") -> httpx2.Response:
    body: dict[str, str] | None = {} if operation.method == "POST" else None
    path = path_of(operation, id or new_id())
    return http.request(operation.method, path, headers=headers, json=body)


def sentence_of(operation: Operation, reply: httpx2.Response) -> str:
    """What was said, after a look at the form in which it was."""
    body: dict[str, Any] = reply.json()
    if operation.dialect == "openai":
        assert body["error"].keys() == {"message", "type", "param", "code"}, operation.path
        return str(body["error"]["message"])
    return str(body["error"])


@dataclass
class Others:
    """What another key has: a conversation with a session, and runs of it in several states."""

    database: psycopg.Connection
    conversation: str = "http:theirs:bob"
    principal: str = "key:theirs"
    session: UUID = field(default_factory=new_id)
    runs: list[UUID] = field(default_factory=list)
    webhook: UUID = field(default_factory=new_id)
    schedule: str = ""

    def make(self) -> None:
        self.database.execute(
            "insert into conversations (key, channel, principal, contact, last_ordinal)"
            " values (%s, 'http', %s, 'Bob', 4)",
            (self.conversation, self.principal),
        )
        self.database.execute(
            "insert into sessions (id, conversation, contact) values (%s, %s, 'Bob')", (self.session, self.conversation)
        )
        for ordinal, state in enumerate(("accepted", "done", "dead"), start=1):
            run = new_id()
            self.runs.append(run)
            ended = state != "accepted"
            self.database.execute(
                "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
                " session, deadline_at, finished_at, outcome)"
                " values (%s, %s, %s, 'message', %s, 'http', 'full', %s, 'bob', %s, %s, now() + interval '1 hour',"
                " case when %s then now() end, %s)",
                (run, self.conversation, ordinal, state, self.principal, f'{{"text": "{PRIVATE}"}}', self.session,
                 ended, f'{{"state": "{state}", "reply": "{PRIVATE}", "error": "{PRIVATE}"}}' if ended else None),
            )  # fmt: skip
        self.database.execute(
            "insert into webhooks (id, run, target, body, state, attempts, error, tried_since, due_at)"
            " values (%s, %s, 'callback', %s, 'dead', 9, %s, now(), now())",
            (self.webhook, self.runs[1], f'{{"reply": "{PRIVATE}"}}', PRIVATE),
        )
        self.database.execute(
            "insert into messages (session, ordinal, run, role, body) values (%s, 1, %s, 'user', %s)",
            (self.session, self.runs[1], f'{{"role": "user", "content": "{PRIVATE}"}}'),
        )

        made = self.database.execute(
            "insert into schedules (conversation, principal, sender, contact, kind, text, due_at, look_at, made_by)"
            " values (%s, %s, 'bob', 'Bob', 'reminder', %s, now() + interval '1 hour', now() + interval '1 hour', 'x')"
            " returning 'sched-' || id",
            (self.conversation, self.principal, PRIVATE),
        ).fetchone()
        assert made is not None
        self.schedule = made[0]

    @property
    def ids(self) -> list[object]:
        return [*self.runs, self.session, self.webhook, self.conversation, str(self.runs[1])[:12], self.schedule]

    def state(self) -> list[tuple[Any, ...]]:
        """All of it that a request could change."""
        query = (
            "select r.id::text, r.state, r.finished_at from runs r where r.principal = %(p)s"
            " union all select s.id::text, coalesce(s.closed_at::text, 'open'), null from sessions s"
            " where s.conversation = %(c)s union all select w.id::text, w.state, null from webhooks w"
            " union all select x.id::text, x.state, x.ended_at from schedules x order by 1"
        )
        return self.database.execute(query, {"p": self.principal, "c": self.conversation}).fetchall()


@pytest.fixture
def others(database_url: str) -> Iterator[Others]:
    with psycopg.connect(database_url, autocommit=True) as database:
        others = Others(database)
        others.make()
        yield others


def test_nothing_that_is_wired_stands_outside_the_matrix(stack: Stack) -> None:
    """What the gateway says it can do, of itself, is what is asked below."""
    with client(stack.gateway()) as http:
        paths = http.get("/openapi.json").json()["paths"]
    told = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert told <= {(operation.method, operation.path.replace(":path}", "}")) for operation in OPERATIONS}
    assert {scope for operation in CLOSED for scope in operation.scopes} == ALL_SCOPES


def test_without_a_good_key_nothing_is_answered_but_what_is_open(stack: Stack) -> None:
    """No key, a wrong one of either form, one that was revoked, another scheme: 401, and not a word more."""
    revoked = make_key(stack.database_url, "old", *ALL_SCOPES)
    revoke_key(stack.database_url, "old")
    strangers: list[dict[str, str]] = [
        {}, bearer(new_secret()), bearer("guess"), bearer(revoked), {"Authorization": f"Basic {TOKEN}"},
    ]  # fmt: skip
    with httpx2.Client(base_url=stack.gateway().url, timeout=20) as http:
        for headers in strangers:
            for operation in CLOSED:
                reply = ask(http, operation, headers)
                assert reply.status_code == 401, (operation.method, operation.path, headers, reply.text)
                assert sentence_of(operation, reply) == "unauthorized"
                assert reply.headers["WWW-Authenticate"] == "Bearer"
                assert "Testbert" not in reply.text
            assert http.get("/api/v1/nowhere", headers=headers).status_code == 401
            for operation in OPEN:
                reply = ask(http, operation, headers)
                assert reply.status_code not in BARRED, (operation.path, reply.text)
                assert not [name for name in reply.headers if name.lower().startswith("ratelimit-")], operation.path


def test_a_key_does_what_its_scopes_say_and_nothing_else(stack: Stack) -> None:
    """With all scopes but those that are needed: 403 that names them. With one of those alone: in."""
    only = {scope: bearer(make_key(stack.database_url, f"only-{scope}", scope)) for scope in ALL_SCOPES}
    without = {
        needed: bearer(make_key(stack.database_url, f"without-{'-'.join(needed)}", *(ALL_SCOPES - {*needed})))
        for needed in {operation.scopes for operation in CLOSED}
    }
    with httpx2.Client(base_url=stack.gateway().url, timeout=20) as http:
        for operation in CLOSED:
            reply = ask(http, operation, without[operation.scopes])
            assert reply.status_code == 403, (operation.method, operation.path, reply.text)
            assert sentence_of(operation, reply) == f"this key may not do that (needs {' or '.join(operation.scopes)})"
            for scope in operation.scopes:
                reply = ask(http, operation, only[scope])
                assert reply.status_code not in BARRED, (operation.method, operation.path, reply.text)
                assert int(reply.headers["RateLimit-Remaining"]) < int(reply.headers["RateLimit-Limit"]), operation.path


def test_who_may_only_chat_comes_back_to_the_runs_it_made(stack: Stack) -> None:
    """A run that takes longer than the wait is fetched by its id; a key that could not do that had sent it in vain."""
    phone = bearer(make_key(stack.database_url, "phone", "chat"))
    other = bearer(make_key(stack.database_url, "other", "chat"))
    with httpx2.Client(base_url=stack.gateway().url, timeout=20) as http:
        run = http.post("/api/v1/chat", json={"message": "hello"}, headers=phone).json()["run_id"]
        assert http.get(f"/api/v1/runs/{run}", headers=phone).json()["state"] == "accepted"
        assert http.get(f"/api/v1/runs/{run}", headers=other).status_code == 404
        assert http.get(f"/api/v1/runs/{run}/events", headers=other).status_code == 404
        assert http.post(f"/api/v1/runs/{run}/cancel", headers=phone).json()["state"] == "cancelled"
        assert "event: cancelled" in http.get(f"/api/v1/runs/{run}/events", headers=phone).text
        assert http.get("/api/v1/runs", headers=phone).status_code == 403


@pytest.mark.parametrize("whose", ["a named key", "the operator"])
def test_what_is_another_keys_is_not_there(stack: Stack, others: Others, whose: str) -> None:
    """Asked for by its id it is not found, lists are without it, and nothing of it is changed."""
    mine = bearer(make_key(stack.database_url, "mine", *ALL_SCOPES) if whose == "a named key" else TOKEN)
    make_key(stack.database_url, "theirs", *ALL_SCOPES)
    before = others.state()
    with httpx2.Client(base_url=stack.gateway().url, timeout=20) as http:
        for operation in ABOUT_ONE:
            for id in others.ids:
                reply = ask(http, operation, mine, id)
                asked = (operation.method, operation.path, id, reply.status_code, reply.text)
                assert PRIVATE not in reply.text, asked
                if reply.status_code != 404:
                    # A name that is none here may be a mistake; an empty list is as good as not found.
                    lists = [value for value in reply.json().values() if isinstance(value, list)]
                    empty = operation.method == "GET" and lists != [] and not any(lists)
                    assert reply.status_code == 400 or (reply.status_code == 200 and empty), asked
        for operation in LOOKING:
            text = ask(http, operation, mine).text
            assert PRIVATE not in text, operation.path
            assert not [id for id in (*others.runs, others.session, others.webhook) if str(id) in text], operation.path
        for target in ("all", "Bob", "bob", others.conversation, str(others.session)):
            http.post("/api/v1/sessions/reset", json={"target": target}, headers=mine)
    assert others.state() == before


def test_what_is_ones_own_is_there(stack: Stack, others: Others) -> None:
    """The matrix above would also hold for a gateway that finds nothing at all."""
    theirs = bearer(make_key(stack.database_url, "theirs", *ALL_SCOPES))
    with httpx2.Client(base_url=stack.gateway().url, timeout=20) as http:
        for path in (
            f"/api/v1/runs/{others.runs[1]}", f"/api/v1/runs/{others.runs[1]}/story", f"/api/v1/dead/{others.runs[2]}",
            f"/api/v1/dead/{others.webhook}",
        ):  # fmt: skip
            assert http.get(path, headers=theirs).status_code == 200, path
        said = http.get(f"/api/v1/sessions/{others.session}/history", headers=theirs).json()["events"]
        assert [event["content"] for event in said] == [PRIVATE]
        assert str(others.session) in http.get("/api/v1/sessions", headers=theirs).text
        (timer,) = http.get("/api/v1/schedules", headers=theirs).json()["schedules"]
        assert (timer["id"], timer["text"]) == (others.schedule, PRIVATE)
        assert http.delete(f"/api/v1/schedules/{others.schedule}", headers=theirs).status_code == 200
        listed = {letter["id"] for letter in http.get("/api/v1/dead", headers=theirs).json()["dead"]}
        assert listed == {str(others.runs[2]), str(others.webhook)}
