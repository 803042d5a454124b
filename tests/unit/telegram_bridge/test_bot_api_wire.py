"""What Telegram's answers mean."""

from datetime import timedelta
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.telegram_bridge.edge.bot_api import BotApi, open_bot_api
from services.telegram_bridge.edge.update_wire import read_updates
from services.telegram_bridge.ports import Refused, TokenRefused, Unclear
from services.telegram_bridge.rules.files import FileToSend
from services.telegram_bridge.rules.people import People
from services.telegram_bridge.rules.place import Place, place_of
from services.telegram_bridge.rules.updates import ButtonPressed, OtherMessage, PassedOver, TextMessage
from shared.domain.delivery import Reaction
from shared.domain.outgoing_file import ShownAs
from shared.errors import TryLater
from tests.fake_bot_api import TOKEN, Fault, Uploaded, fake_bot_api

SOON = timedelta(seconds=0.5)
PERSON = {"id": 7, "is_bot": False, "first_name": "Anna", "username": "anna_b"}
CHAT = {"id": 7, "type": "private"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "chat", "from", "text"]), inner),
    max_leaves=8,
)


def message(**fields: Any) -> dict[str, Any]:
    return {"update_id": 5, "message": {"message_id": 1, "from": PERSON, "chat": CHAT, **fields}}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("answer", status=429, seconds=3), TryLater),
        (Fault("answer", status=500), TryLater),
        (Fault("answer", status=502), TryLater),
        (Fault("answer", status=400), Refused),
        (Fault("answer", status=403), Refused),
        (Fault("answer", status=401), TokenRefused),
        (Fault("answer", status=404), TokenRefused),
        (Fault("answer", status=403, document={"error": "the company's proxy"}), TryLater),
        (Fault("answer", status=302, document={}), TryLater),
        (Fault("answer", status=504, document={"a": "gateway that waited in vain"}), Unclear),
        (Fault("answer", status=200, document={"half": "an answer"}), Unclear),
        (Fault("cut"), Unclear),
        (Fault("cut", done=True), Unclear),
        (Fault("hang", seconds=2), Unclear),
    ],
)
async def test_only_a_clear_no_means_that_nothing_was_sent(fault: Fault, error: type[Exception]) -> None:
    """All else might be on the person's screen, and must not be sent twice."""
    async with fake_bot_api() as telegram, open_bot_api(telegram.url, TOKEN, timeout=SOON, connect_timeout=SOON) as api:
        telegram.fail("sendMessage", fault)
        with pytest.raises(error) as caught:
            await api.send(Place(7), "hello")
        assert "CANARY" not in repr(caught.value) + repr(caught.value.__context__)
        if fault.status == 429:
            assert isinstance(caught.value, TryLater)
            assert caught.value.after == 3
        assert await api.send(Place(7, 3), "hello") == str(len(telegram.sent))
        assert telegram.sent[-1].topic == 3


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://name.invalid"])
async def test_who_was_not_reached_has_sent_nothing(address: str) -> None:
    """No line, no doubt."""
    async with open_bot_api(address, TOKEN, timeout=timedelta(seconds=9), connect_timeout=timedelta(seconds=9)) as api:
        with pytest.raises(TryLater):
            await api.send(Place(7), "hello")


async def test_a_poll_may_be_asked_again_whatever_happened() -> None:
    """Asking changes nothing there."""
    async with fake_bot_api() as telegram, open_bot_api(telegram.url, TOKEN, timeout=SOON, connect_timeout=SOON) as api:
        telegram.fail("getUpdates", Fault("cut"), Fault("answer", status=409), Fault("answer", status=200, document={}))
        for _ in range(3):
            with pytest.raises(TryLater):
                await api.updates(offset=None, wait=timedelta(0))
        await telegram.writes("a")
        await telegram.writes("b")
        first, second = await api.updates(offset=None, wait=timedelta(0))
        assert [each.update for each in await api.updates(offset=second.update, wait=timedelta(0))] == [second.update]
        assert telegram.waiting == [second.update]
        assert isinstance(first, TextMessage)


async def test_half_a_character_does_not_hold_up_the_others() -> None:
    """One odd message would be met again for ever, and all that came behind it."""
    message = b'{"from":{"id":7},"chat":{"id":7,"type":"private"},"text":"\\ud83d"}'
    body = b'{"ok":true,"result":[{"update_id":1,"message":' + message + b"}]}"
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=body))
    async with httpx2.AsyncClient(transport=transport) as client:
        (update,) = await BotApi(client, "http://127.0.0.1", TOKEN, SOON).updates(offset=1, wait=timedelta(0))
    assert isinstance(update, TextMessage)


@pytest.mark.parametrize(
    ("update", "read"),
    [
        (message(text="hello"), TextMessage(5, Place(7), 7, "anna_b", "Anna", "hello", 1)),
        (
            message(text="x", message_thread_id=3, is_topic_message=True),
            TextMessage(5, Place(7, 3), 7, "anna_b", "Anna", "x", 1),
        ),
        (message(text="x", message_thread_id=3), TextMessage(5, Place(7), 7, "anna_b", "Anna", "x", 1)),
        (message(text="x", message_id=12), TextMessage(5, Place(7), 7, "anna_b", "Anna", "x", 12)),
        (message(text="x", message_id="12"), TextMessage(5, Place(7), 7, "anna_b", "Anna", "x")),
        (message(photo=[], caption="look"), OtherMessage(5, Place(7), 7, "photo")),
        (message(voice={}, media_group_id="a"), OtherMessage(5, Place(7), 7, "voice", "a")),
        (message(text=" "), PassedOver(5, "nothing said")),
        (message(pinned_message={}), PassedOver(5, "nothing said")),
        (message(text="x", chat={"id": -7, "type": "group"}), PassedOver(5, "group")),
        (message(text="x", **{"from": {**PERSON, "is_bot": True}}), PassedOver(5, "nobody")),
        ({"update_id": 5, "edited_message": {}}, PassedOver(5, "kind")),
        ({"update_id": 5, "callback_query": {"id": "p"}}, PassedOver(5, "button")),
        (
            {"update_id": 5, "callback_query": {"id": "p", "from": PERSON, "message": {"chat": CHAT}, "data": "d"}},
            ButtonPressed(5, "p", 7, 7, "d"),
        ),
    ],
)
def test_updates_are_read_in_our_words(update: dict[str, Any], read: object) -> None:
    """Nothing else of the bridge knows Telegram's."""
    assert read_updates([update]) == [read]


@given(JSON, JSON)
def test_whatever_comes_is_read(anything: object, part: object) -> None:
    """A new kind of update must not stop the bridge."""
    read_updates(anything)
    read_updates([{"update_id": 1, "message": anything}, {"update_id": 2, "callback_query": part}, anything])
    assert [each.update for each in read_updates([{"update_id": 1, "message": {"chat": part, "from": anything}}])] == [
        1
    ]


@pytest.mark.parametrize("place", [Place(7), Place(-1001234567890), Place(7, 3)])
def test_a_place_and_its_conversation_are_the_same(place: Place) -> None:
    """Replies find the way back."""
    assert place_of(place.conversation) == place


@pytest.mark.parametrize(
    "key", ["telegram:", "telegram:7:", "telegram:7:-3", "telegram:\u0667", "cli", "http:telegram:7"]
)
def test_other_conversations_are_no_place(key: str) -> None:
    """A key is not guessed at."""
    assert place_of(key) is None


def test_people_are_known_by_number_and_called_by_name() -> None:
    """Whoever calls himself Anna is not Anna."""
    people = People(frozenset({7}), {"Anna": 7})
    assert people.may_write(7)
    assert not people.may_write(8)
    assert People().may_write(8)
    assert people.label(7, username="x", first_name="y") == "Anna"
    assert people.label(8, username="", first_name=" An\x00na\ud800\n ") == "An na"
    assert people.label(8, username="", first_name="\x00") == "8"
    assert len(people.label(8, username="a" * 500, first_name="")) == 64


PNG = b"\x89PNG\r\n\x1a\n\r\n--\0\xff"
METHODS: dict[ShownAs, str] = {
    "photo": "sendPhoto", "voice": "sendVoice", "audio": "sendAudio", "video": "sendVideo", "document": "sendDocument",
}  # fmt: skip


@pytest.mark.parametrize("shown_as", list(METHODS))
async def test_a_file_goes_as_a_form_with_all_its_bytes(shown_as: ShownAs) -> None:
    """Each kind has a method of its own; names and captions may be of any writing."""
    file = FileToSend('schöne "Katze".png', "image/png", shown_as, "Schön: 🐈", PNG)
    async with fake_bot_api() as telegram, open_bot_api(telegram.url, TOKEN, timeout=SOON, connect_timeout=SOON) as api:
        assert await api.send_file(Place(-7, 3), file) == "1"
        assert telegram.calls == [METHODS[shown_as]]
        (sent,) = telegram.sent
    assert (sent.chat, sent.topic, sent.text, sent.shown_as) == (-7, 3, file.caption, shown_as)
    assert sent.file == Uploaded("schöne %22Katze%22.png", "image/png", PNG)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("answer", status=429, seconds=3), TryLater),
        (Fault("answer", status=400), Refused),
        (Fault("answer", status=413), Refused),
        (Fault("answer", status=413, document={"a": "proxy"}), TryLater),
        (Fault("answer", status=401), TokenRefused),
        (Fault("cut"), Unclear),
        (Fault("cut", done=True), Unclear),
    ],
)
async def test_of_a_file_too_only_a_clear_no_means_that_nothing_was_sent(fault: Fault, error: type[Exception]) -> None:
    """As of a text."""
    file = FileToSend("cat.png", "image/png", "photo", "", PNG)
    async with fake_bot_api() as telegram, open_bot_api(telegram.url, TOKEN, timeout=SOON, connect_timeout=SOON) as api:
        telegram.fail("sendPhoto", fault)
        with pytest.raises(error) as caught:
            await api.send_file(Place(7), file)
        assert "CANARY" not in repr(caught.value) + repr(caught.value.__context__)
        assert len(telegram.sent) == int(fault.done)


async def test_what_is_no_picture_is_refused_as_a_photo() -> None:
    """So says Telegram once it has looked at the bytes."""
    file = FileToSend("cat.png", "image/png", "photo", "", b"no cat")
    async with fake_bot_api() as telegram, open_bot_api(telegram.url, TOKEN, timeout=SOON, connect_timeout=SOON) as api:
        with pytest.raises(Refused, match="IMAGE_PROCESS_FAILED"):
            await api.send_file(Place(7), file)


async def test_a_reaction_takes_the_place_of_the_one_before_it() -> None:
    """So doing it again changes nothing."""
    async with fake_bot_api() as telegram, open_bot_api(telegram.url, TOKEN, timeout=SOON, connect_timeout=SOON) as api:
        number = await telegram.writes("hello")
        for emoji in ("\N{FIRE}", "\N{THUMBS UP SIGN}", "\N{THUMBS UP SIGN}"):
            await api.react(Place(7, 3), Reaction(str(number), emoji))
        assert telegram.reactions == {(7, number): ["\N{THUMBS UP SIGN}"]}


@pytest.mark.parametrize(("message", "emoji", "why"), [
    ("404", "\N{FIRE}", "message to react not found"), ("1", "\N{HOT BEVERAGE}", "REACTION_INVALID"),
    ("one", "\N{FIRE}", "a message of Telegram has a number"),
])  # fmt: skip
async def test_a_reaction_that_can_not_be_is_refused(message: str, emoji: str, why: str) -> None:
    """For good: no later time makes it possible."""
    async with fake_bot_api() as telegram, open_bot_api(telegram.url, TOKEN, timeout=SOON, connect_timeout=SOON) as api:
        with pytest.raises(Refused, match=why):
            await api.react(Place(7), Reaction(message, emoji))
