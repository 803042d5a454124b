"""Webhooks out of real gateways, to a receiver that behaves as receivers do."""

import base64
import hashlib
import hmac
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from shared.ids import new_id
from tests.stack import Process, Stack, client, open_stack, text_of, wait_until
from tests.webhook_receiver import Received, Receiver, open_receiver

OLD = "whsec_" + base64.b64encode(b"the-old-secret-of-the-receiver").decode()
NEW = "whsec_" + base64.b64encode(b"the-new-secret-of-the-receiver").decode()
SECRET = "token-of-the-receiver"
BODY = '{"reply": "a private word", "silent": false}'


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    with open_stack(tmp_path, database_url, redis_url, "") as opened:
        opened.environment["RECEIVER_TOKEN"] = SECRET
        yield opened


def gateway(stack: Stack, receiver: Receiver) -> Process:
    """A gateway that knows the receiver."""
    stack.config.write_text(
        f'[http]\ncallback_url = "{receiver.url}?key=in-the-address"\ncallback_token_env = "RECEIVER_TOKEN"\n'
        "callback_timeout = 0.5\n[run]\nwait_seconds = 0.2\n"
    )
    return stack.gateway()


def make(database: psycopg.Connection) -> UUID:
    """A run and its webhook, as the transaction that ends a run makes it."""
    run, webhook = new_id(), new_id()
    database.execute("insert into conversations (key, channel, principal, contact) values ('c', 'http', 'p', 'n')")
    database.execute(
        "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
        " deadline_at) values (%s, 'c', 1, 'message', 'done', 'http', 'full', 'p', 's', '{}', now())",
        (run,),
    )
    database.execute(
        "insert into webhooks (id, run, target, body) values (%s, %s, 'callback', %s)", (webhook, run, BODY)
    )
    return webhook


def stands(database: psycopg.Connection, state: str, attempts: int) -> bool:
    return database.execute("select state, attempts from webhooks").fetchall() == [(state, attempts)]


def hurry(database: psycopg.Connection) -> None:
    """Do not wait for the pause to pass."""
    database.execute("update webhooks set due_at = now() where state = 'pending'")


def test_a_receiver_that_fails_hangs_cuts_and_sends_away_gets_it_in_the_end(stack: Stack) -> None:
    """Delivered, each time under the same id, and neither token, address nor text is in a log."""
    with (
        open_receiver(500, "hang", "cut", "away", "flood") as receiver,
        psycopg.connect(stack.database_url, autocommit=True) as database,
    ):
        serving = gateway(stack, receiver)
        webhook = make(database)
        for attempt in range(1, 5):
            wait_until(lambda attempt=attempt: stands(database, "pending", attempt), f"try {attempt} has failed")
            hurry(database)
        wait_until(lambda: stands(database, "sent", 5), "it was taken")
        received = list(receiver.received)
        serving.stop()

    assert [each.path for each in received] == ["/hook?key=in-the-address"] * 5
    assert {each.headers["webhook-id"] for each in received} == {str(webhook)}
    assert {each.headers["authorization"] for each in received} == {f"Bearer {SECRET}"}
    assert all(abs(int(each.headers["webhook-timestamp"]) - 1_000_000_000) > 0 for each in received)
    assert [each.body for each in received] == [{"reply": "a private word", "silent": False, "agent": "Lucyd"}] * 5
    said = text_of(serving)
    assert "webhook_failed" in said
    assert "Traceback" not in said
    for word in (SECRET, "in-the-address", "a private word"):
        assert word not in said


def test_what_a_killed_gateway_was_sending_another_one_sends(stack: Stack) -> None:
    """Under the same id: perhaps the receiver had it already."""
    with (
        open_receiver("hang", 204) as receiver,
        psycopg.connect(stack.database_url, autocommit=True) as database,
    ):
        stack.environment["LUCYD_LOG_LEVEL"] = "debug"
        doomed = gateway(stack, receiver)
        stack.config.write_text(stack.config.read_text().replace("callback_timeout = 0.5", "callback_timeout = 20"))
        doomed.stop()
        doomed = stack.gateway()
        webhook = make(database)
        wait_until(lambda: len(receiver.received) == 1, "the receiver has the first try")
        doomed.kill()
        assert stands(database, "sending", 1)
        heir = gateway(stack, receiver)
        assert not stands(database, "sent", 2)
        database.execute("update webhooks set claimed_at = claimed_at - interval '61 seconds'")
        wait_until(lambda: stands(database, "sent", 2), "the other gateway has sent it")
        senders = database.execute("select count(*) from webhooks where sender is not null").fetchone()
        assert senders == (1,)
        assert heir.stop() == 0
        assert [each.headers["webhook-id"] for each in receiver.received] == [str(webhook)] * 2


def test_a_receiver_that_is_gone_is_not_asked_again(stack: Stack) -> None:
    """And the audit says so."""
    with open_receiver(410) as receiver, psycopg.connect(stack.database_url, autocommit=True) as database:
        gateway(stack, receiver)
        make(database)
        wait_until(lambda: stands(database, "dead", 1), "it is given up")
        events = database.execute("select type, payload ->> 'attempts' from events").fetchall()
        assert events == [("webhook_dead", "1")]
        assert len(receiver.received) == 1


def test_a_message_is_accepted_with_its_webhook(stack: Stack) -> None:
    """Whoever ends the run finds the name of the target with it; the address stands in no table."""
    with open_receiver(200) as receiver, psycopg.connect(stack.database_url, autocommit=True) as database:
        with client(gateway(stack, receiver)) as http:
            assert http.post("/api/v1/chat", json={"message": "hello"}).status_code == 408
        assert database.execute("select webhook from runs").fetchall() == [("callback",)]
        assert receiver.received == []


def is_from_lucyd(received: Received, secret: str) -> bool:
    """As a receiver looks at it, by the specification."""
    identifier, timestamp = received.headers["webhook-id"], received.headers["webhook-timestamp"]
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{identifier}.{timestamp}.".encode() + received.raw
    fits = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    is_fresh = abs(time.time() - int(timestamp)) < 300
    return is_fresh and fits in received.headers["webhook-signature"].split(" ")


def test_each_try_is_signed_with_both_secrets_while_one_is_replaced(stack: Stack) -> None:
    """A receiver that knows the old one and a receiver that knows the new one can tell; no log has either."""
    stack.environment["SIGNING"] = f"{OLD} {NEW}"
    with open_receiver(500, 204) as receiver, psycopg.connect(stack.database_url, autocommit=True) as database:
        stack.config.write_text(f'[http]\ncallback_url = "{receiver.url}"\ncallback_secret_env = "SIGNING"\n')
        serving = stack.gateway()
        make(database)
        wait_until(lambda: stands(database, "pending", 1), "the first try has failed")
        hurry(database)
        wait_until(lambda: stands(database, "sent", 2), "it was taken")
        serving.stop()
        received = list(receiver.received)
    assert [is_from_lucyd(each, secret) for each in received for secret in (OLD, NEW)] == [True] * 4
    assert not is_from_lucyd(received[0], "whsec_" + base64.b64encode(b"x" * 32).decode())
    forged = Received("/hook", received[0].headers, {}, received[0].raw.replace(b"private", b"forged"))
    assert not is_from_lucyd(forged, OLD)
    said = text_of(serving)
    assert OLD not in said
    assert NEW not in said


@pytest.mark.parametrize("value", [None, "whsec_short", f"{OLD} {NEW} {OLD}"])
def test_a_secret_that_signs_nothing_ends_the_start_with_one_sentence(stack: Stack, value: str | None) -> None:
    """A receiver that verifies would refuse every webhook for a day; and the secret is in no sentence."""
    if value is not None:
        stack.environment["SIGNING"] = value
    stack.config.write_text('[http]\ncallback_url = "http://127.0.0.1:9"\ncallback_secret_env = "SIGNING"\n')
    process = stack.start("gateway")
    assert process.popen.wait(20) == 1
    said = text_of(process).strip()
    assert [line.split(": ", 1)[1].split(" ", 1)[0] for line in said.splitlines()] == ["SIGNING"]
    assert value is None or not [word for word in value.split() if word in said]


def test_no_request_names_where_its_end_is_told(stack: Stack) -> None:
    """Else any key could have the gateway post to machines that only it can reach."""
    with (
        open_receiver(200) as receiver,
        open_receiver(200) as named,
        psycopg.connect(stack.database_url, autocommit=True) as database,
    ):
        with client(gateway(stack, receiver)) as http:
            body = {"message": "hello", "callback_url": named.url, "webhook": named.url}
            http.post("/api/v1/chat", json=body, headers={"Callback-URL": named.url, "Callback": named.url})
        webhook = new_id()
        database.execute(
            "insert into webhooks (id, run, target, body) select %s, id, webhook, %s from runs", (webhook, BODY)
        )
        wait_until(lambda: stands(database, "sent", 1), "it was sent")
        assert [each.headers["webhook-id"] for each in receiver.received] == [str(webhook)]
        assert named.received == []


def test_a_callback_that_could_never_be_sent_is_one_sentence(stack: Stack) -> None:
    """At the start, not at the first message."""
    stack.environment["RECEIVER_TOKEN"] = "two\nlines"
    stack.config.write_text('[http]\ncallback_url = "http://127.0.0.1:9"\ncallback_token_env = "RECEIVER_TOKEN"\n')
    process = stack.start("gateway")
    assert process.popen.wait(20) == 1
    lines = text_of(process).strip().splitlines()
    assert [line.split(": ", 1)[1].split(" ", 1)[0] for line in lines] == ["RECEIVER_TOKEN"]


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"]
)
def test_nothing_is_posted_to_the_metadata_of_a_cloud(stack: Stack, host: str) -> None:
    """Whoever wrote that has slipped, or was made to."""
    stack.config.write_text(f'[http]\ncallback_url = "http://{host}/latest/"\n')
    process = stack.start("gateway")
    assert process.popen.wait(20) == 1
    lines = text_of(process).strip().splitlines()
    assert [line.split(": ", 1)[1].split(":", 1)[0] for line in lines] == ["http.callback_url"]


def test_a_proxy_of_the_environment_is_asked_for_other_machines_only(stack: Stack) -> None:
    """Where the way out leads through one there is no other; a receiver on this machine it could not reach."""
    with (
        open_receiver(200) as proxy,
        open_receiver(200) as receiver,
        psycopg.connect(stack.database_url, autocommit=True) as database,
    ):
        for name in ("HTTP_PROXY", "http_proxy"):
            stack.environment[name] = proxy.url.rpartition("/")[0]
        serving = gateway(stack, receiver)
        make(database)
        wait_until(lambda: stands(database, "sent", 1), "it was sent past the proxy")
        assert (len(receiver.received), len(proxy.received)) == (1, 0)
        serving.stop()
        database.execute("delete from webhooks")
        database.execute("delete from runs")
        database.execute("delete from conversations")
        stack.config.write_text('[http]\ncallback_url = "http://receiver.invalid/hook"\n')
        stack.gateway()
        make(database)
        wait_until(lambda: stands(database, "sent", 1), "it was sent through the proxy")
        assert [each.path for each in proxy.received] == ["http://receiver.invalid/hook"]
