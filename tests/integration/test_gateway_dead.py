"""What was given up, over HTTP and out of a real Postgres."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from shared.ids import new_id
from tests.stack import Stack, client, open_stack


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, "[run]\nwait_seconds = 0.2\n") as opened:
        yield opened


class Ruins:
    """Rows of things that were given up."""

    def __init__(self, database: psycopg.Connection) -> None:
        self.database = database
        self.worker = new_id()

    def run(self, conversation: str, principal: str, *, kind: str = "message") -> UUID:
        run = new_id()
        channel = conversation.split(":", 1)[0]
        self.database.execute(
            "insert into conversations (key, channel, principal, contact, last_ordinal) values (%s, %s, %s, 'Ada', 1)",
            (conversation, channel, principal),
        )
        self.database.execute(
            "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
            " deadline_at, attempts, step, suspected, suspected_by, finished_at, outcome, webhook)"
            " values (%s, %s, 1, %s, 'dead', 'http', 'full', %s, 'ada', %s, now(), 4, 2, 4, %s, now(), %s, 'callback')",
            (run, conversation, kind, principal, '{"text": "a private word", "notify_meta": {"order": 7}}', self.worker,
             '{"state": "dead", "error": "Four workers died with it.", "reply": ""}'),
        )  # fmt: skip
        return run

    def delivery(self, run: UUID, conversation: str, state: str) -> UUID:
        delivery = new_id()
        self.database.execute(
            "insert into deliveries (id, run, conversation, channel, ordinal, part, body, state, attempts, error,"
            " bridge) values (%s, %s, %s, 'telegram', 1, 1, %s, %s, 3, 'the chat is gone', %s)",
            (delivery, run, conversation, '{"text": "a private word"}', state, self.worker),
        )
        return delivery

    def webhook(self, run: UUID, state: str) -> UUID:
        webhook = new_id()
        self.database.execute(
            "insert into webhooks (id, run, target, body, state, attempts, error, sender, tried_since, due_at)"
            " values (%s, %s, 'callback', %s, %s, 31, 'no answer within 10 s', %s, now() - interval '1 day',"
            " now() - interval '1 hour')",
            (webhook, run, '{"reply": "a private word"}', state, self.worker),
        )
        return webhook

    def one(self, query: str, *parameters: Any) -> Any:
        return self.database.execute(query, parameters).fetchone()


def test_everything_that_was_given_up_is_listed_and_can_be_decided(stack: Stack) -> None:
    """Runs, deliveries and webhooks in one list; never what was said; what is another key's is not there."""
    with psycopg.connect(stack.database_url, autocommit=True) as database, client(stack.gateway()) as http:
        ruins = Ruins(database)
        run = ruins.run("http:default:ada", "key:default")
        webhook = ruins.webhook(run, "dead")
        of_telegram = ruins.run("telegram:7", "person:7")
        failed = ruins.delivery(of_telegram, "telegram:7", "failed")
        theirs = ruins.run("http:phone:bob", "key:phone")
        ruins.webhook(theirs, "sent")

        listed = http.get("/api/v1/dead")
        assert "a private word" not in listed.text
        letters = {letter["id"]: letter for letter in listed.json()["dead"]}
        assert letters.keys() == {str(run), str(webhook), str(of_telegram), str(failed)}
        entry = letters[str(run)]
        assert (entry["kind"], entry["reason"], entry["attempts"]) == ("run", "Four workers died with it.", 4)
        assert (entry["last_worker"], entry["last_step"]) == (str(ruins.worker), 2)
        assert (letters[str(webhook)]["kind"], letters[str(webhook)]["about"]) == ("webhook", "callback")
        assert letters[str(failed)]["reason"] == "the chat is gone"
        assert http.get(f"/api/v1/dead/{run}").json()["id"] == str(run)

        for unknown in (theirs, new_id(), "abc"):
            for method, path in (("GET", ""), ("POST", "/retry"), ("POST", "/drop")):
                reply = http.request(method, f"/api/v1/dead/{unknown}{path}")
                assert reply.status_code == 404
                assert reply.json()["error"] == "nothing that was given up has this id"

        again = http.post(f"/api/v1/dead/{run}/retry").json()
        assert http.post(f"/api/v1/dead/{run}/retry").json() == again
        row = ruins.one("select state, retry_of, message, webhook from runs where id = %s", again["run_id"])
        assert row == ("accepted", run, {"text": "a private word", "notify_meta": {"order": 7}}, "callback")
        assert http.get(f"/api/v1/dead/{run}").json()["state"] == "retried"
        assert http.post(f"/api/v1/dead/{run}/drop").status_code == 400

        assert http.post(f"/api/v1/dead/{webhook}/retry").json()["retried"] is True
        row = ruins.one("select state, attempts, due_at <= now(), now() - tried_since < '1 minute' from webhooks"
                        " where id = %s", webhook)  # fmt: skip
        assert row == ("pending", 0, True, True)
        assert http.post(f"/api/v1/dead/{failed}/retry").json()["kind"] == "delivery"
        row = ruins.one("select state, due_at <= now(), bridge from deliveries where id = %s", failed)
        assert row == ("pending", True, None)

        for _ in range(2):
            assert http.post(f"/api/v1/dead/{of_telegram}/drop").json()["dropped"] is True
        assert http.post(f"/api/v1/dead/{of_telegram}/retry").status_code == 400
        assert http.get("/api/v1/dead").json()["dead"] == []
        events = database.execute("select type from events where type <> 'webhook_dead' order by id").fetchall()
        assert [kind for (kind,) in events] == ["run_dismissed", "webhook_revived", "delivery_revived", "run_dismissed"]
