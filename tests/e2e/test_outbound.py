"""A message over HTTP goes out by the bridge and is read in Telegram: once, whoever asks again and whatever dies."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from shared.domain.delivery import IN_DOUBT
from tests import fake_bot_api
from tests.api_keys import bearer, make_key
from tests.fake_bot_api import ANNA, FakeBotApi
from tests.scripted_model_server import Hang, Say, ScriptedModelServer, Step, Use
from tests.stack import Process, Stack, async_client, model_toml, open_stack, text_of

BOB = 8
FIRE = "\N{FIRE}"
SEND = "/api/v1/outbound/send"
CAT = b"\x89PNG\r\n\x1a\n" + b"\0cat\r\n" * 50_000
SEND_CAT: list[Step] = [
    Use([("send_file", {"file_path": "cat.png"}), ("send_file", {"file_path": "../../etc/passwd"})]),
    Hang(60),
    Say("Here it is."),
]
TELLS: list[Step] = [
    # Names in the order in which Postgres keeps them: to the server an heir's question is the same then, asked again.
    Use([
        ("react", {"emoji": FIRE, "target": "Anna"}), ("message", {"text": "One moment.", "target": "Anna"}),
        ("message", {"text": "Anna is looking for you.", "target": "bob"}),
        ("message", {"text": "Hello?", "target": "Cleo"}),
    ]),
    Hang(60),
    Say("I have told him."),
]  # fmt: skip
LEADS_WITHIN = 60.0
"""Seconds: whoever follows a bridge that was killed waits until the dead one counts as dead."""


@pytest.fixture
async def telegram() -> AsyncIterator[FakeBotApi]:
    async with fake_bot_api.fake_bot_api() as server:
        yield server


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer({"cat": SEND_CAT, "tell": TELLS}).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    tools = '[tools]\nenabled = ["send_file", "message", "react"]\n[telegram.contacts]\nAnna = 7\nBob = 8\n'
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=tools)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        (opened.workspace / "cat.png").write_bytes(CAT)
        yield opened


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx2.AsyncClient]:
    gateway = await asyncio.to_thread(stack.gateway)
    await asyncio.to_thread(stack.workers)
    async with async_client(gateway) as opened:
        yield opened


async def bridge_that_leads(stack: Stack, telegram: FakeBotApi) -> Process:
    """A bridge that has taken in what Anna wrote, and has brought the answer: from then on she can be written to."""
    said = len(telegram.said_to(ANNA))
    bridge = stack.start(
        "telegram_bridge", LUCYD_TELEGRAM_TOKEN=fake_bot_api.TOKEN, LUCYD_TELEGRAM_API_URL=telegram.url
    )
    await telegram.writes("hello")
    try:
        await telegram.until(lambda: not telegram.waiting and len(telegram.said_to(ANNA)) > said, LEADS_WITHIN)
    except TimeoutError:
        raise AssertionError(f"the bridge does not lead: {text_of(bridge)[-2000:]}") from None
    return bridge


def heard(telegram: FakeBotApi, *texts: str) -> list[str]:
    """Which of these Anna has read, in their order: beside them are the answers to what she wrote."""
    return [text for text in telegram.said_to(ANNA) if text in texts]


async def sent(http: httpx2.AsyncClient, text: str, key: str) -> httpx2.Response:
    """The last word about a message; who hears that it still stands in its line asks again, as the page says."""
    async with asyncio.timeout(LEADS_WITHIN):
        while True:
            answer = await http.post(SEND, json={"text": text}, headers={"Idempotency-Key": key})
            if answer.status_code != 202:
                return answer


def delivered(answer: httpx2.Response) -> Any:
    """The body of what has arrived."""
    assert answer.status_code == 200, answer.text
    assert answer.json()["delivered"] is True
    return answer.json()


async def test_a_message_is_read_once_however_often_it_is_asked_for(
    stack: Stack, http: httpx2.AsyncClient, telegram: FakeBotApi
) -> None:
    """Nobody has to have run a model for it, and who repeats a request after a lost answer annoys nobody."""
    await bridge_that_leads(stack, telegram)
    first = delivered(await sent(http, "The tea is ready.", "tea"))
    assert first["conversation"] == f"telegram:{ANNA}"
    again = await asyncio.gather(*(sent(http, "The tea is ready.", "tea") for _ in range(5)))
    assert [delivered(each) for each in again] == [first] * 5
    other = await http.post(SEND, json={"text": "The tea is cold."}, headers={"Idempotency-Key": "tea"})
    assert other.status_code == 409
    delivered(await sent(http, "The tea is ready.", "another pot"))
    assert heard(telegram, "The tea is ready.") == ["The tea is ready."] * 2


async def test_a_bridge_that_dies_before_it_has_sent_leaves_it_to_its_heir(
    stack: Stack, http: httpx2.AsyncClient, telegram: FakeBotApi
) -> None:
    """It stands in Postgres, so no bridge takes it with it; and what was sent before the death is not sent again."""
    bridge = await bridge_that_leads(stack, telegram)
    before = delivered(await sent(http, "before", "one"))
    await asyncio.to_thread(bridge.kill)
    waits = asyncio.create_task(sent(http, "after", "two"))  # the dead one still counts as living
    await bridge_that_leads(stack, telegram)
    after = delivered(await waits)
    assert delivered(await sent(http, "before", "one")) == before
    assert delivered(await sent(http, "after", "two")) == after
    assert heard(telegram, "before", "after") == ["before", "after"]


async def test_what_a_dying_bridge_may_have_sent_is_told_and_not_sent_again(
    stack: Stack, http: httpx2.AsyncClient, telegram: FakeBotApi
) -> None:
    """Telegram has shown it, and its answer found nobody: only the person can know."""
    bridge = await bridge_that_leads(stack, telegram)
    delivered(await sent(http, "Knock, knock.", "knock"))  # from here on nothing else is under way
    said = len(telegram.sent)
    let_go = telegram.hold("sendMessage")
    asking = asyncio.create_task(sent(http, "The door is open.", "door"))
    await telegram.until(lambda: len(telegram.sent) > said)
    await asyncio.to_thread(bridge.kill)
    let_go()
    await bridge_that_leads(stack, telegram)
    doubted = await asking
    assert doubted.status_code == 502, doubted.text
    assert (doubted.json()["delivered"], "nobody can tell" in doubted.json()["error"]) == (False, True)
    again = await sent(http, "The door is open.", "door")
    assert (again.status_code, again.json()) == (502, doubted.json())
    await telegram.until(lambda: IN_DOUBT in telegram.said_to(ANNA))
    assert heard(telegram, "The door is open.", IN_DOUBT) == ["The door is open.", IN_DOUBT]


async def test_a_worker_that_dies_leaves_it_to_its_heir_and_the_agent_knows_of_it(
    stack: Stack, http: httpx2.AsyncClient, telegram: FakeBotApi
) -> None:
    """Accepted while no worker lives, said by the next one, once, and it stands in the session."""
    await bridge_that_leads(stack, telegram)
    (worker,) = [process for process in stack.processes if process.name == "agent_worker"]
    await asyncio.to_thread(worker.kill)
    waits = asyncio.create_task(sent(http, "The tea is ready.", "tea"))
    await asyncio.to_thread(stack.workers)
    told = delivered(await waits)
    assert heard(telegram, "The tea is ready.") == ["The tea is ready."]
    with psycopg.connect(stack.database_url) as database:
        rows = database.execute(
            "select r.kind, r.state, m.role, m.body ->> 'text' from runs r join messages m on m.run = r.id "
            "join deliveries d on d.run = r.id where d.id = %s",
            (told["deliveries"][0],),
        ).fetchall()
        reserved = database.execute(
            "select count(*) from reservations v join runs r on r.id = v.run where r.kind = 'outbound'"
        ).fetchone()
    assert rows == [("outbound", "done", "assistant", "The tea is ready.")]
    assert reserved == (0,)


async def test_a_file_that_the_agent_sends_arrives_once_though_its_worker_dies(
    stack: Stack, http: httpx2.AsyncClient, telegram: FakeBotApi
) -> None:
    """Sent before the death, told by the heir: behind its words in Telegram, with its bytes; a file that the tool may
    not read is an error that the model reads. Over HTTP the reply names it, and who may read the run fetches it."""
    await bridge_that_leads(stack, telegram)
    await telegram.writes("show me the cat [[script:cat]]")
    asking = asyncio.create_task(http.post("/api/v1/chat", json={"message": "and me [[script:cat]]"}))
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        async with asyncio.timeout(30):
            while database.execute("select count(*) from runs where step = 2").fetchone() != (2,):
                await asyncio.sleep(0.05)
        (worker,) = [process for process in stack.processes if process.name == "agent_worker"]
        await asyncio.to_thread(worker.kill)
        (stack.workspace / "cat.png").write_bytes(b"another cat")
        await asyncio.to_thread(stack.workers)
        await telegram.until(lambda: bool(telegram.files_of(ANNA)), LEADS_WITHIN)
        results = database.execute("select body -> 'results' from messages where role = 'tool_results'").fetchall()
    assert telegram.files_of(ANNA) == [("photo", "cat.png", CAT)]
    assert telegram.said_to(ANNA)[-2:] == ["Here it is.", ""]
    assert [[each["content"].split(":")[0] for each in row[0]] for row in results] == [
        ["Attached cat.png", "Error"], ["Attached cat.png", "Error"]
    ]  # fmt: skip

    reply = (await asking).json()
    assert base64.b64decode(reply["attachments"][0].pop("data")) == CAT  # as the original's clients expect
    url = f"/api/v1/runs/{reply['run_id']}/attachments/1"
    assert reply["attachments"] == [{"filename": "cat.png", "content_type": "image/png", "size": len(CAT), "url": url}]
    fetched = await http.get(url)
    assert (fetched.status_code, fetched.content) == (200, CAT)
    assert (fetched.headers["content-type"], fetched.headers["x-content-type-options"]) == ("image/png", "nosniff")
    assert fetched.headers["content-disposition"] == "attachment; filename*=UTF-8''cat.png"
    for other in (url[:-1] + "2", url[:-1] + "x", url[:-1] + "0"):
        assert (await http.get(other)).status_code == 404
    theirs = bearer(make_key(stack.database_url, "theirs", "admin", "read", "chat"))
    refused = await http.get(url, headers=theirs)
    assert (refused.status_code, refused.json()["error"]) == (404, "no such run")


async def test_what_the_agent_tells_people_arrives_once_though_its_worker_dies(
    stack: Stack, http: httpx2.AsyncClient, telegram: FakeBotApi, models: ScriptedModelServer
) -> None:
    """Done before the death and not again by the heir: a reaction below what she wrote, words for her before the reply,
    words for another, which stand in his session; a name that is nobody's is an error that the model reads."""
    await bridge_that_leads(stack, telegram)
    await telegram.writes("I am Bob", sender=BOB)
    await telegram.until(lambda: bool(telegram.said_to(BOB)), LEADS_WITHIN)
    said = len(telegram.said_to(ANNA))
    number = await telegram.writes("where is Bob? [[script:tell]]")
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        await telegram.until(lambda: "Anna is looking for you." in telegram.said_to(BOB), LEADS_WITHIN)
        async with asyncio.timeout(30):
            while not any("Sent to Bob" in str(each["body"]) for each in list(models.requests)):  # it reads the results
                await asyncio.sleep(0.05)
        (worker,) = [process for process in stack.processes if process.name == "agent_worker"]
        await asyncio.to_thread(worker.kill)
        await asyncio.to_thread(stack.workers)
        await telegram.until(lambda: "I have told him." in telegram.said_to(ANNA), LEADS_WITHIN)
        results = database.execute("select body -> 'results' from messages where role = 'tool_results'").fetchall()
        in_his_session = database.execute(
            "select m.role, r.kind from messages m join runs r on r.id = m.run where r.conversation = 'telegram:8'"
            " and m.body ->> 'text' = 'Anna is looking for you.'"
        ).fetchall()
    assert telegram.reactions == {(ANNA, number): [FIRE]}
    assert telegram.said_to(ANNA)[said:] == ["One moment.", "I have told him."]
    assert telegram.said_to(BOB)[1:] == ["Anna is looking for you."]
    assert [each["content"] for each in results[0][0]] == [
        f"Reacted with {FIRE} to the last message of Anna.", "Sent to Anna: it goes out now, before your reply.",
        "Sent to Bob: it goes out in its turn.", "Error: Unknown contact 'Cleo'. Contacts: Anna, Bob",
    ]  # fmt: skip
    assert in_his_session == [("assistant", "outbound")]
