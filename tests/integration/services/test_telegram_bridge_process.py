"""The Telegram bridge as a process, against a Bot API of our own on 127.0.0.1."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import psycopg
import pytest

from shared.adapters.postgres.pool import Database
from shared.domain.delivery import IN_DOUBT, Reaction
from shared.domain.outgoing_file import OutgoingFile
from shared.ids import new_id
from tests.deliveries_worlds import CHAT, PostgresDeliveriesWorld
from tests.fake_bot_api import ANNA, BOT, TOKEN, FakeBotApi, Fault, fake_bot_api
from tests.integration.services.service_process import Running, Surroundings, started, until

SECRET = "the cat is called Mimi"
RUNS = """
select r.conversation, r.ordinal, r.source, r.sender, r.principal, c.channel, c.contact, r.message ->> 'text'
from runs r join conversations c on c.key = r.conversation order by r.accepted_at
"""
STATES = "select state, count(*)::integer from deliveries group by state"


@pytest.fixture
async def telegram() -> AsyncIterator[FakeBotApi]:
    async with fake_bot_api() as server:
        yield server


@pytest.fixture
def world(database: Database) -> PostgresDeliveriesWorld:
    return PostgresDeliveriesWorld(database)


def settings(telegram: FakeBotApi, **more: str) -> dict[str, str]:
    return {
        "LUCYD_TELEGRAM_TOKEN": TOKEN,
        "LUCYD_TELEGRAM_API_URL": telegram.url,
        "LUCYD_LOG_LEVEL": "debug",
        **more,
    }


async def leads(bridge: Running) -> None:
    await bridge.ready()

    async def does() -> bool:
        return (await bridge.monitor()).get("role") == "leader"

    await until(does, 40, bridge.said)


async def states(database: Database) -> Mapping[str, int]:
    return dict(await database.rows(STATES))


async def until_states(database: Database, bridge: Running, seconds: float = 30, **expected: int) -> None:
    async def are() -> bool:
        return await states(database) == expected

    try:
        await until(are, seconds, bridge.said)
    except AssertionError as fault:
        raise AssertionError(f"{await states(database)} instead of {expected}; {fault}") from None


async def audit(database: Database) -> Sequence[tuple[Any, ...]]:
    return await database.rows("select type, payload::text from events order by id")


async def test_without_a_token_it_idles_and_says_so(surroundings: Surroundings) -> None:
    """`make run` on a fresh machine must not fail for want of a bot."""
    async with started("telegram_bridge", surroundings) as bridge:
        assert (await bridge.ready())["state"] == "idle"
        assert "no Telegram token is set: the bridge idles; set LUCYD_TELEGRAM_TOKEN" in bridge.said()
        assert await bridge.stop() == 0


async def test_it_shows_its_bot_after_a_bad_start_and_never_its_token(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database
) -> None:
    """Telegram has bad moments; and a token in a log is a bot that somebody else may take over."""
    telegram.fail("getMe", Fault("answer", status=502), Fault("answer", status=429), Fault("cut"))
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        fields = await bridge.monitor()
        assert (fields["state"], fields["bot"]) == ("ready", "@lucyd_bot")
        assert await bridge.stop() == 0
        assert telegram.calls[:4] == ["getMe"] * 4
        assert f"/bot{TOKEN}/getMe" in telegram.paths
        assert "CANARY" not in bridge.said() + str(fields)
        assert await database.value("select state from workers where service = 'telegram_bridge'") == "stopped"


async def test_a_refused_token_is_said_plainly(surroundings: Surroundings, telegram: FakeBotApi) -> None:
    """Restarting for ever would help nobody."""
    telegram.refuses_token = True
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await bridge.ready()

        async def idles() -> bool:
            return "refuses the token" in bridge.said() and (await bridge.monitor()).get("state", "") == "idle"

        await until(idles, 30, bridge.said)
        assert "CANARY" not in bridge.said()
        assert telegram.calls == ["getMe"]
        assert await bridge.stop() == 0


async def test_a_telegram_that_is_not_there_keeps_nobody_from_stopping(surroundings: Surroundings) -> None:
    """The network is down on the train; the token still stays where it is."""
    environment = {
        "LUCYD_TELEGRAM_TOKEN": TOKEN,
        "LUCYD_TELEGRAM_API_URL": "http://127.0.0.1:1",
        "LUCYD_LOG_LEVEL": "debug",
    }
    async with started("telegram_bridge", surroundings, **environment) as bridge:
        assert (await bridge.ready())["state"] == "connecting"

        async def has_tried() -> bool:
            return "telegram_not_reached" in bridge.said()

        await until(has_tried, 30, bridge.said)
        assert await bridge.stop() == 0
        assert "CANARY" not in bridge.said()


async def test_what_a_person_writes_becomes_a_run_and_its_text_stays_out_of_the_log(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database
) -> None:
    """The agent knows people by their numbers; names are labels."""
    config = surroundings.data_dir / "lucyd.toml"
    config.write_text("[telegram]\nallowed_senders = [7, 9]\n[telegram.contacts]\nAnna = 7\n", "utf-8")
    await telegram.writes(SECRET)  # before anybody listens
    async with started("telegram_bridge", surroundings, **settings(telegram, LUCYD_CONFIG=str(config))) as bridge:
        await leads(bridge)
        await telegram.writes("in a topic", is_topic_message=True, message_thread_id=3)
        await telegram.writes("let me in", sender=666)
        await telegram.writes("who am I", sender=9)
        await telegram.writes("in a group", chat={"id": -5, "type": "supergroup"})
        await telegram.until(lambda: not telegram.waiting)

        assert await database.rows(RUNS) == [
            ("telegram:7", 1, "telegram", "7", "person:telegram:7", "telegram", "Anna", SECRET),
            ("telegram:7:3", 1, "telegram", "7", "person:telegram:7", "telegram", "Anna", "in a topic"),
            ("telegram:9", 1, "telegram", "9", "person:telegram:9", "telegram", "person_9", "who am I"),
        ]
        assert await surroundings.client.xlen("lucyd:inbound") == 3
        assert telegram.sent == []
        refused = [event for event in bridge.events() if event["event"] == "sender_refused"]
        assert [event["sender"] for event in refused] == [666]
        assert await bridge.stop() == 0
        told = bridge.said() + str(await audit(database))
        assert all(word not in told for word in ("Mimi", "let me in", "in a topic", "CANARY"))
        mark = "select next_update from telegram_state where bot = %s"
        assert await database.value(mark, (BOT,)) == 1005


async def test_what_can_not_be_taken_is_answered_once(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database
) -> None:
    """A person who sends pictures must not wait for an answer that never comes."""
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        for _ in range(3):
            await telegram.writes(None, photo=[{"file_id": "x"}], media_group_id="album")
        await telegram.writes(None, pinned_message={})
        await telegram.until(lambda: not telegram.waiting and bool(telegram.sent))
        await until_states(database, bridge, sent=1)

        assert telegram.said_to(ANNA) == ["I can only take text messages for now. What you sent has not reached me."]
        assert await database.rows(RUNS) == []


async def test_an_update_met_again_is_accepted_once(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database
) -> None:
    """Killed between accepting and noting it, the next bridge gets the same update from Telegram."""
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        number = await telegram.writes("hello")
        await telegram.until(lambda: not telegram.waiting)
        bridge.process.kill()
        await bridge.process.wait()
    await database.rows("delete from telegram_state")
    await telegram.tells({"message": _plain("hello")}, number=number)
    await telegram.tells({"message": _plain("and more")})
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await telegram.until(lambda: not telegram.waiting, 40)
        assert [row[-1] for row in await database.rows(RUNS)] == ["hello", "and more"]


def _plain(text: str) -> dict[str, Any]:
    return {
        "message_id": 5,
        "from": {"id": ANNA, "is_bot": False},
        "chat": {"id": ANNA, "type": "private"},
        "text": text,
    }


@contextlib.asynccontextmanager
async def runs_locked(database_url: str) -> AsyncIterator[None]:
    """Nothing can be accepted: to the bridge that is a Postgres that does not answer in time."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("lock table runs in access exclusive mode")
        yield
        await connection.rollback()


async def test_while_postgres_refuses_the_offset_stays(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database
) -> None:
    """Telegram keeps what we could not keep."""
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        async with runs_locked(surroundings.database_url):
            number = await telegram.writes("hello")

            async def waits() -> bool:
                return "update_put_off" in bridge.said()

            await until(waits, 20, bridge.said)
            assert telegram.waiting == [number]
            assert await database.value("select count(*) from telegram_state") == 0
        await telegram.until(lambda: not telegram.waiting, 40)
        assert [row[-1] for row in await database.rows(RUNS)] == ["hello"]


async def test_replies_are_sent_in_their_order_and_slow_chats_hold_up_nobody(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """Refused for a while is not refused: what was asked for is waited, and nothing overtakes."""
    telegram.fail("sendMessage", Fault("answer", status=429, seconds=5, chat=ANNA), Fault("answer", status=502, chat=8))
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        for part in (1, 2, 3):
            await world.put(f"part {part}", part=part)
        await world.put("after", ordinal=2)
        await world.put("other", conversation="telegram:8")
        await world.put("topic", conversation="telegram:9:4")
        await surroundings.client.xadd("lucyd:outbound:telegram", {"channel": "telegram"})
        await until_states(database, bridge, sent=6)

        assert telegram.said_to(ANNA) == ["part 1", "part 2", "part 3", "after"]
        assert telegram.sent[-4].text == "part 1"  # the others were faster
        assert [message.topic for message in telegram.sent if message.chat == 9] == [4]
        assert telegram.calls.count("sendMessage") == 8
        assert await database.value("select count(distinct external_id) from deliveries") == 6
        assert await surroundings.client.xlen("lucyd:outbound:telegram") == 0


async def test_what_telegram_refuses_for_good_is_kept_with_its_reason(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """Somebody blocked the bot; trying for ever would only annoy Telegram."""
    telegram.fail("sendMessage", Fault("answer", status=403))
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        id = await world.put(SECRET)
        await until_states(database, bridge, failed=1)
        assert (await world.stored(id)).error == "403 fault 403"
        assert "Mimi" not in bridge.said() + str(await audit(database))


async def test_a_lost_answer_is_in_doubt_said_and_sent_again_once(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """Only the person can know whether the message is there."""
    telegram.fail("sendMessage", Fault("cut", done=True))
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        await world.put(SECRET)
        await until_states(database, bridge, in_doubt=1, sent=1)
        assert telegram.said_to(ANNA) == [SECRET, IN_DOUBT]
        button = telegram.sent[-1].button
        assert button is not None

        await telegram.presses(button, sender=8, chat=8)
        await telegram.presses(button)
        await telegram.presses(button)
        await until_states(database, bridge, sent=2)
        await telegram.until(lambda: len(telegram.pressed) == 3 and not telegram.waiting)
        assert telegram.said_to(ANNA) == [SECRET, IN_DOUBT, SECRET]
        assert list(telegram.pressed.values()) == [
            "That is no longer possible.",
            "I send it again.",
            "That was done before.",
        ]
        assert [type for type, _ in await audit(database)] == ["delivery_in_doubt", "delivery_asked_again"]
        assert "Mimi" not in bridge.said() + str(await audit(database))


async def test_a_line_cut_before_the_message_was_shown_is_in_doubt_as_well(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """From here both look the same."""
    telegram.fail("sendMessage", Fault("cut"))
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        await world.put("one")
        await world.put("two", part=2)
        await until_states(database, bridge, in_doubt=1, sent=2)
        assert telegram.said_to(ANNA) == [IN_DOUBT, "two"]


async def test_a_killed_bridge_leaves_a_doubt_and_its_heir_repeats_nothing(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """Killed between the claim and the answer: one notice, nothing twice, the rest in its order."""
    environment = settings(telegram)
    async with started("telegram_bridge", surroundings, **environment) as first:
        await leads(first)
        async with started("telegram_bridge", surroundings, **environment) as heir:
            await heir.ready()
            let_go = telegram.hold("sendMessage")
            for part in (1, 2, 3):
                await world.put(f"part {part}", part=part)
            await telegram.until(lambda: bool(telegram.sent))
            assert await states(database) == {"sending": 1, "pending": 2}
            first.process.send_signal(signal.SIGKILL)
            await first.process.wait()
            let_go()
            await until_states(database, heir, 40, in_doubt=1, sent=3)

            assert telegram.said_to(ANNA) == ["part 1", IN_DOUBT, "part 2", "part 3"]
            await telegram.writes("are you there?")
            await telegram.until(lambda: not telegram.waiting)
            assert len(await database.rows(RUNS)) == 1
            assert await heir.stop() == 0


async def test_a_stopped_bridge_leaves_and_what_it_was_sending_is_in_doubt(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """A laptop that slept: peers count it as dead, so it must not go on as if nothing were."""
    environment = settings(telegram)
    async with started("telegram_bridge", surroundings, **environment) as first:
        await leads(first)
        async with started("telegram_bridge", surroundings, **environment) as heir:
            await heir.ready()
            let_go = telegram.hold("sendMessage")
            await world.put("one")
            await telegram.until(lambda: bool(telegram.sent))
            first.process.send_signal(signal.SIGSTOP)
            let_go()
            await until_states(database, heir, 30, in_doubt=1, sent=1)
            first.process.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(first.process.wait(), 15) == 75
            assert telegram.said_to(ANNA) == ["one", IN_DOUBT]


async def test_a_bridge_that_is_told_to_stop_ends_what_it_has_begun(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """A deployment leaves no doubts."""
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        let_go = telegram.hold("sendMessage")
        await world.put("one")
        await world.put("two", part=2)
        await telegram.until(lambda: bool(telegram.sent))
        bridge.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)
        let_go()
        assert await asyncio.wait_for(bridge.process.wait(), 30) == 0
        assert await states(database) == {"sent": 1, "pending": 1}


KILLS = ((5, 0.0), (13, 0.07), (21, 0.15))
"""How many messages people have seen, and seconds after that; the first always meets one that is not answered yet."""


def people_have_seen(telegram: FakeBotApi, messages: int) -> bool:
    return len(telegram.sent) >= messages


@pytest.mark.timeout(180)
async def test_bridges_killed_again_and_again_repeat_nothing_and_lose_nothing(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """Whatever the instant: each message is there once, or in doubt and said so; and in its order."""
    telegram.slowness = 0.2
    chats = (7, 8, 9)
    for number in range(12):
        for chat in chats:
            await world.put(f"{number}", conversation=f"telegram:{chat}", ordinal=number)
        await telegram.writes(f"question {number}")
    async with contextlib.AsyncExitStack() as stack:
        for shown, wait in KILLS:
            bridge = await stack.enter_async_context(started("telegram_bridge", surroundings, **settings(telegram)))
            await telegram.until(partial(people_have_seen, telegram, shown))
            await asyncio.sleep(wait)
            bridge.process.kill()
            await bridge.process.wait()
        bridge = await stack.enter_async_context(started("telegram_bridge", surroundings, **settings(telegram)))

        async def all_settled() -> bool:
            found = await states(database)
            return not {"pending", "sending"} & found.keys() and not telegram.waiting

        await until(all_settled, 60, bridge.said)
    kinds = await database.rows("select conversation, ordinal, kind, state from deliveries")
    assert "in_doubt" in {state for *_, state in kinds}  # else no kill has met a sending, and this shows nothing
    for chat in chats:
        mine = [row[1:] for row in kinds if row[0] == f"telegram:{chat}"]
        seen = [int(text) for text in telegram.said_to(chat) if text != IN_DOUBT]
        sent = {ordinal for ordinal, kind, state in mine if kind == "reply" and state == "sent"}
        doubted = {ordinal for ordinal, kind, state in mine if kind == "reply" and state == "in_doubt"}
        assert seen == sorted(set(seen))
        assert sent <= set(seen) <= sent | doubted
        assert sent | doubted == set(range(12))
        assert sorted(ordinal for ordinal, kind, _ in mine if kind == "notice") == sorted(doubted)
    assert [row[-1] for row in await database.rows(RUNS)] == [f"question {number}" for number in range(12)]


CONFIG = """
[telegram]
text_chunk_limit = 40
[models.primary]
provider = "offline"
model = "offline"
"""


async def test_a_person_writes_and_the_agent_answers(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database
) -> None:
    """From the phone to the agent and back, in parts of the size that Telegram takes, in their order."""
    config = surroundings.data_dir / "lucyd.toml"
    config.write_text(CONFIG, "utf-8")
    environment = settings(telegram, LUCYD_CONFIG=str(config))
    async with (
        started("agent_worker", surroundings, LUCYD_CONFIG=str(config)) as worker,
        started("telegram_bridge", surroundings, **environment) as bridge,
    ):
        await leads(bridge)
        await telegram.writes("who are you and what can you do?")

        async def answered() -> bool:
            state = await database.value("select state from runs where conversation = 'telegram:7'")
            parts = await states(database)
            return state == "done" and set(parts) == {"sent"}

        await until(answered, 60, lambda: bridge.said() + worker.said())
        reply: str = await database.value("select outcome ->> 'reply' from runs where conversation = 'telegram:7'")
        seen = telegram.said_to(ANNA)
        assert len(seen) > 1
        assert all(len(part) <= 40 for part in seen)
        assert "".join("".join(seen).split()).startswith("".join(reply.split()))


PNG = b"\x89PNG\r\n\x1a\n"


async def put_file(database: Database, world: PostgresDeliveriesWorld, data: bytes, *, part: int) -> None:
    """A photo that is to go out, whose bytes are in Postgres."""
    run, blob = new_id(), new_id()
    await database.rows(
        "insert into conversations (key, channel, principal, contact) values (%s, 'telegram', 'me', 'Anna')"
        " on conflict do nothing",
        (CHAT,),
    )
    await database.rows(
        "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
        " deadline_at) values (%s, %s, %s, 'outbound', 'done', 'http', 'full', 'me', 'me', '{}', now())",
        (run, CHAT, part),
    )
    await database.rows("select lucyd_keep_blob(%s, %s, 'image/png', 'Mimi.png', false, %b)", (blob, run, data))
    await world.put("", part=part, file=OutgoingFile(blob, "Mimi.png", "image/png", len(data), "photo", f"Mimi {part}"))


async def test_files_go_out_in_their_order_and_once(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """Put off when Telegram says so, as a document where it refuses a photo, and in doubt when the line is cut."""
    await world.put("Look.")
    await put_file(database, world, PNG * 200_000, part=2)
    await put_file(database, world, b"no picture", part=3)
    await put_file(database, world, PNG, part=4)
    await world.put("That is all.", part=5)
    telegram.fail("sendPhoto", Fault("answer", status=429, seconds=1))
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        await until_states(database, bridge, sent=5)
        assert telegram.said_to(ANNA) == ["Look.", "Mimi 2", "Mimi 3", "Mimi 4", "That is all."]
        assert telegram.files_of(ANNA) == [
            ("photo", "Mimi.png", PNG * 200_000), ("document", "Mimi.png", b"no picture"), ("photo", "Mimi.png", PNG)
        ]  # fmt: skip
        telegram.fail("sendPhoto", Fault("cut", done=True))
        await put_file(database, world, PNG, part=6)
        await until_states(database, bridge, sent=6, in_doubt=1)  # the notice, too
        assert telegram.said_to(ANNA)[5:] == ["Mimi 6", IN_DOUBT]
        assert await bridge.stop() == 0
        assert "Mimi" not in bridge.said()


async def test_a_reaction_is_put_below_what_a_person_wrote(
    surroundings: Surroundings, telegram: FakeBotApi, database: Database, world: PostgresDeliveriesWorld
) -> None:
    """The number of a message stands in its run. A lost answer is no doubt: it is simply done again."""
    number = await telegram.writes("hello")
    async with started("telegram_bridge", surroundings, **settings(telegram)) as bridge:
        await leads(bridge)
        await telegram.until(lambda: not telegram.waiting)
        assert await database.value("select message ->> 'message_id' from runs") == str(number)
        telegram.fail("setMessageReaction", Fault("cut", done=True), Fault("answer", status=502))
        await world.put("", kind="reaction", reaction=Reaction(str(number), "\N{FIRE}"))
        await world.put("", part=2, kind="reaction", reaction=Reaction("1", "\N{FIRE}"))
        await world.put("after it", part=3)
        await until_states(database, bridge, sent=2, failed=1)
        assert telegram.reactions == {(ANNA, number): ["\N{FIRE}"]}
        assert telegram.calls.count("setMessageReaction") == 4
        assert telegram.said_to(ANNA) == ["after it"]
        refused = await database.value("select error from deliveries where state = 'failed'")
        assert refused == "400 Bad Request: message to react not found"
        assert await bridge.stop() == 0
