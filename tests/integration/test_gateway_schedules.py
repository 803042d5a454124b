"""Schedules over HTTP, with a real gateway and a real database."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.api_keys import bearer, make_key
from tests.stack import Stack, client, open_stack

MADE = """
with c as (
  insert into conversations (key, channel, principal, contact) values (%s, 'http', %s, 'Ann')
  on conflict (key) do update set contact = excluded.contact returning key
)
insert into schedules (conversation, principal, sender, contact, kind, text, due_at, look_at, made_by, state, run,
                       reason)
select key, %s, 'ann', 'Ann', 'reminder', %s, now() + interval '1 hour', now() + interval '1 hour',
       gen_random_uuid()::text, %s, case when %s = 'fired' then gen_random_uuid() end, %s from c
returning 'sched-' || id
"""


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, '[agent]\nname = "Testbert"\n') as opened:
        yield opened


def make(stack: Stack, text: str = "tea", state: str = "pending", principal: str = "key:default",
         reason: str | None = None) -> str:  # fmt: skip
    conversation = f"http:{principal}:ann"
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        made = database.execute(MADE, (conversation, principal, principal, text, state, state, reason)).fetchone()
    assert made is not None
    return str(made[0])


def test_what_is_scheduled_is_listed_and_taken_back(stack: Stack) -> None:
    """By state, the newest first; taken back once, and twice is the same."""
    tea, over, failed = make(stack), make(stack, "over", "fired"), make(stack, "weed", "failed", reason="no room")
    with client(stack.gateway()) as http:
        listed = http.get("/api/v1/schedules").json()["schedules"]
        assert [each["id"] for each in listed] == [failed, over, tea]
        assert (listed[0]["reason"], listed[0]["run_id"], listed[1]["run_id"] is not None) == ("no room", None, True)
        (pending,) = http.get("/api/v1/schedules?state=pending").json()["schedules"]
        assert (pending["id"], pending["text"], pending["kind"], pending["contact"]) == (tea, "tea", "reminder", "Ann")
        assert len(http.get("/api/v1/schedules?limit=1").json()["schedules"]) == 1
        for _ in range(2):
            reply = http.delete(f"/api/v1/schedules/{tea}")
            assert (reply.status_code, reply.json()) == (200, {"cancelled": True, "id": tea, "agent": "Testbert"})
        assert http.get("/api/v1/schedules?state=cancelled").json()["schedules"][0]["id"] == tea


def test_what_can_not_be_taken_back_is_refused_in_a_sentence(stack: Stack) -> None:
    """And nothing is changed."""
    over, failed = make(stack, "over", "fired"), make(stack, "weed", "failed", reason="no room")
    with client(stack.gateway()) as http:
        for id, status, words in (
            (over, 409, "it has happened already"),
            (failed, 409, "it has failed, and will not come"),
            ("sched-999999999999999999", 404, "nothing of that id is scheduled"),
            ("sched-9999999999999999999999", 404, "nothing of that id is scheduled"),
            ("sched-0" + over.removeprefix("sched-"), 404, "nothing of that id is scheduled"),
            ("tea", 404, "nothing of that id is scheduled"),
        ):
            reply = http.delete(f"/api/v1/schedules/{id}")
            assert (reply.status_code, reply.json()["error"]) == (status, words), id
        for query in ("state=late", "limit=0", "limit=201", "limit=x"):
            assert http.get(f"/api/v1/schedules?{query}").status_code == 400, query
        assert {each["state"] for each in http.get("/api/v1/schedules").json()["schedules"]} == {"fired", "failed"}


def test_the_operator_looks_after_chats_and_keys_after_themselves(stack: Stack) -> None:
    """A reminder of a chat belongs to no key, so that nobody else could."""
    chat, own = make(stack, principal="person:telegram:1"), make(stack, principal="key:phone")
    phone = bearer(make_key(stack.database_url, "phone", "chat", "read"))
    with client(stack.gateway()) as http:
        assert [each["id"] for each in http.get("/api/v1/schedules").json()["schedules"]] == [chat]
        assert [each["id"] for each in http.get("/api/v1/schedules", headers=phone).json()["schedules"]] == [own]
        assert http.delete(f"/api/v1/schedules/{chat}", headers=phone).status_code == 404
        assert http.delete(f"/api/v1/schedules/{own}").status_code == 404
        assert http.delete(f"/api/v1/schedules/{chat}").status_code == 200
