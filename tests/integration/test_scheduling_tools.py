"""A scripted model schedules, lists and cancels through a real worker, and is told when the time has come."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import psycopg
import pytest

from tests.api_keys import bearer, make_key
from tests.scripted_model_server import Asked, Say, Script, ScriptedModelServer, Step, Use
from tests.stack import Stack, client, model_toml, open_stack, wait_until

ZONE = ZoneInfo("Asia/Kathmandu")
"""Nobody's default, and not a whole number of hours from UTC."""

MOST = 3
TOOLS = ["schedule_message", "remind_user", "schedule_self_task", "list_scheduled", "cancel_scheduled"]
TOML = f"""
[user]
timezone = "{ZONE}"
[tools]
enabled = {TOOLS}
[tools.scheduling]
max_scheduled = {MOST}
max_delay = 600
[telegram.contacts]
Ann = 7
Bob = 8
"""


def ahead(days: int) -> str:
    """At half past eight, so many days from now, on the person's clock."""
    return (datetime.now(ZONE) + timedelta(days=days)).strftime("%Y-%m-%dT08:30")


def one(name: str, **arguments: Any) -> list[Step]:
    """The model makes this call, and says that it did."""
    return [Use([(name, arguments)]), Say("Done.")]


def when_told(asked: Asked) -> Step:
    """Answers what the scheduler brings."""
    return Say(f"I was told: {asked.text}")


SCRIPTS: Mapping[str, Script] = {
    "remind": one("remind_user", message="call mum", when=ahead(2)),
    "task": one("schedule_self_task", instruction="water the plants", when=ahead(1)),
    "message": one("schedule_message", target="ANN", text="see you", delay_seconds=600),
    "message_nobody": one("schedule_message", target="Cleo", text="see you", delay_seconds=60),
    "message_far": one("schedule_message", target="Bob", text="see you", delay_seconds=601),
    "message_now": one("schedule_message", target="Bob", text="see you", delay_seconds=0),
    "message_empty": one("schedule_message", target="Bob", text="", delay_seconds=1),
    "list": one("list_scheduled"),
    "cancel": one("cancel_scheduled", job_id="sched-1"),
    "cancel_second": one("cancel_scheduled", job_id="sched-2"),
    "cancel_nothing": one("cancel_scheduled", job_id="sched-99"),
    "cancel_nonsense": one("cancel_scheduled", job_id="the first"),
    "past": one("remind_user", message="too late", when="2020-01-01T08:30"),
    "far": one("schedule_self_task", instruction="too far", when=ahead(400)),
    "vague": one("remind_user", message="vague", when="tomorrow at eight"),
    "empty": one("remind_user", message="  ", when=ahead(1)),
    "long": one("schedule_self_task", instruction="x" * 4001, when=ahead(1)),
    "wrong": one("remind_user", text="call mum"),
    "many": [Use([("remind_user", {"message": f"n{n}", "when": ahead(1)}) for n in range(MOST + 2)]), Say("Done.")],
}


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer(dict(SCRIPTS), default=when_told).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=TOML)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


def results(http: httpx2.Client, script: str, **body: Any) -> list[str]:
    """What the model read of its calls."""
    reply = http.post("/api/v1/chat", json={"message": f"[[script:{script}]]", **body}).json()
    assert reply["reply"] == "Done.", reply
    events = http.get(f"/api/v1/sessions/{reply['session_id']}/history?full=true").json()["events"]
    found: list[str] = [event["content"] for event in events if event["type"] == "tool_result"]
    return found[-(MOST + 2) :] if script == "many" else found[-1:]


def shown(days: int) -> str:
    return ahead(days).replace("T", " ")


def test_what_is_scheduled_is_listed_fires_and_can_be_cancelled(stack: Stack) -> None:
    """The whole life of a reminder, beside a task that is taken back."""
    gateway, _ = stack.gateway(), stack.workers()
    with client(gateway) as http:
        assert results(http, "list") == ["Nothing is scheduled."]
        assert results(http, "task") == [f"Scheduled sched-1: task at {shown(1)} {ZONE}"]
        assert results(http, "remind") == [f"Scheduled sched-2: reminder at {shown(2)} {ZONE}"]
        (listed,) = results(http, "list")
        assert listed.splitlines() == [
            f"Scheduled: 2 (times in {ZONE})",
            f"- sched-1 at {shown(1)}: task: water the plants",
            f"- sched-2 at {shown(2)}: reminder: call mum",
        ]
        assert results(http, "cancel") == ["Cancelled sched-1"]
        with psycopg.connect(stack.database_url, autocommit=True) as database:
            stack.start("scheduler")
            database.execute("update schedules set due_at = now(), look_at = now() where id = 2")
            wait_until(lambda: fired(database) == ["cancelled", "fired"], "the reminder has fired")
            run = database.execute("select run from schedules where id = 2").fetchone()
        assert run is not None
        wait_until(lambda: http.get(f"/api/v1/runs/{run[0]}").json()["state"] == "done", "the model was told")
        reply = http.get(f"/api/v1/runs/{run[0]}").json()
        assert "\n[Reminder] call mum\n[It is " in reply["outcome"]["reply"], reply
        assert results(http, "list") == ["Nothing is scheduled."]


CHAT = """
with c as (insert into conversations (key, channel, principal, contact)
           values ('telegram:1', 'telegram', 'person:telegram:1', 'Ann') returning key)
insert into schedules (conversation, principal, sender, contact, kind, text, due_at, look_at, made_by)
select key, 'person:telegram:1', '1', 'Ann', 'reminder', 'call mum', now(), now(), 'x' from c
"""
GOES_OUT = "select body ->> 'text' from deliveries where conversation = 'telegram:1' and channel = 'telegram'"


def test_a_message_for_later_is_kept_for_its_contact_and_is_its_makers_own(stack: Stack) -> None:
    """By the operator's name for the chat, however it is written. Of people with one key each sees their own; who
    holds the key sees all of it."""
    gateway, _ = stack.gateway(), stack.workers()
    with client(gateway) as http:
        assert results(http, "message") == ["Scheduled sched-1: message to Ann in 600 seconds"]
        (timer,) = http.get("/api/v1/schedules").json()["schedules"]
        assert (timer["kind"], timer["target"], timer["text"], timer["state"]) == (
            "message",
            "Ann",
            "see you",
            "pending",
        )
        (listed,) = results(http, "list")
        assert listed.endswith(": message to Ann: see you")
        http.headers.update(bearer(make_key(stack.database_url, "shop", "chat", "read")))
        unknown = "Error: Unknown contact 'ANN'. Contacts: none that this key may reach"
        assert results(http, "message", sender="anna") == [unknown]
        assert results(http, "task", sender="anna") == [f"Scheduled sched-2: task at {shown(1)} {ZONE}"]
        assert results(http, "list", sender="berta") == ["Nothing is scheduled."]
        assert results(http, "cancel_second", sender="berta")[0].startswith("Error: nothing of yours is scheduled as ")
        assert [each["id"] for each in http.get("/api/v1/schedules").json()["schedules"]] == ["sched-2"]
        assert results(http, "cancel_second", sender="anna") == ["Cancelled sched-2"]
    with psycopg.connect(stack.database_url) as database:
        row = database.execute("select place, due_at - created_at from schedules where id = 1").fetchone()
        assert row == ("telegram:7", timedelta(seconds=600))


def test_what_the_agent_says_to_a_reminder_goes_out_to_the_chat(stack: Stack) -> None:
    """Nobody fetches a reply that nobody has asked for."""
    stack.workers()
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        database.execute(CHAT)
        stack.start("scheduler")
        wait_until(lambda: database.execute(GOES_OUT).fetchall(), "the reply goes out")
        ((text,),) = database.execute(GOES_OUT).fetchall()
    assert "[Reminder] call mum" in text


def fired(database: psycopg.Connection) -> list[str]:
    return [row[0] for row in database.execute("select state from schedules order by id").fetchall()]


def test_what_can_not_be_scheduled_is_told_and_nothing_is_kept(stack: Stack) -> None:
    """Each error begins with Error, and names what is wrong."""
    gateway, _ = stack.gateway(), stack.workers()
    with client(gateway) as http:
        for script, words in {
            "past": "Error: when must be at least 1 minute ahead; it is ",
            "far": "Error: when must be at most 366 days ahead; it is ",
            "vague": "Error: when must be a local date and time such as 2026-03-01T08:30",
            "empty": "Error: message is empty",
            "long": "Error: instruction has more than 4000 characters",
            "wrong": "Error: Invalid arguments for 'remind_user': missing required argument 'message'",
            "message_nobody": "Error: Unknown contact 'Cleo'. Contacts: Ann, Bob",
            "message_far": "Error: delay_seconds must be from 1 to 600",
            "message_now": "Error: delay_seconds must be from 1 to 600",
            "message_empty": "Error: text is empty",
            "cancel_nothing": "Error: nothing of yours is scheduled as sched-99; list_scheduled shows what is",
            "cancel_nonsense": "Error: job_id is no id of a schedule, such as sched-12; list_scheduled shows them",
        }.items():
            (result,) = results(http, script)
            assert result.startswith(words), script
    with psycopg.connect(stack.database_url) as database:
        assert fired(database) == []


def test_calls_of_one_answer_do_not_pass_the_limit_together(stack: Stack) -> None:
    """They run at the same time, and the limit is one for all conversations of a principal."""
    gateway, _ = stack.gateway(), stack.workers(2)
    with client(gateway) as http:
        many = results(http, "many")
        assert sum(result.startswith("Scheduled sched-") for result in many) == MOST
        full = f"Error: {MOST} are scheduled already, and no more may be; cancel one first"
        assert many.count(full) == 2
        assert results(http, "remind", sender="another") == [full]
