"""How the bridge finds out who it is, and what it never tells."""

import random
import traceback
from collections.abc import Iterator
from datetime import timedelta

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.telegram_bridge.actions.introduce_bot import introduce_bot
from services.telegram_bridge.edge.bot_api import BotApi
from services.telegram_bridge.ports import Bot, TokenRefused
from services.telegram_bridge.rules.backoff import Backoff
from services.telegram_bridge.rules.standing import Standing
from services.telegram_bridge.settings import Settings
from shared.adapters.system_clock import SystemClock
from shared.errors import ConfigError, TryLater
from shared.runtime.settings import Configuration

CANARY = "123456789:CANARY-tellNobody"
BACKOFF = Backoff(timedelta(seconds=1), timedelta(seconds=10), 2.0, 0.2)
CHANCE = random.Random(1)  # noqa: S311 - spreads waits


class ListedClock(SystemClock):
    """Writes waits down instead of waiting."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


class Account:
    """Answers one by one."""

    def __init__(self, *answers: Bot | Exception) -> None:
        self.answers: Iterator[Bot | Exception] = iter(answers)

    async def me(self) -> Bot:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def introduced(*answers: Bot | Exception) -> tuple[Bot | None, list[Standing], list[float]]:
    clock, shown = ListedClock(), list[Standing]()
    bot = await introduce_bot(Account(*answers), clock, BACKOFF, CHANCE, shown.append)
    return bot, shown, clock.waits


async def test_it_asks_again_until_telegram_answers() -> None:
    """And waits as long as Telegram asks for."""
    bot, shown, waits = await introduced(TryLater("x"), TryLater("x", after=30), Bot(1, "lucyd_bot"))
    assert bot == Bot(1, "lucyd_bot")
    assert shown == [Standing("connecting"), Standing("ready", "lucyd_bot")]
    assert 0.8 <= waits[0] <= 1.2
    assert waits[1] == 30


async def test_a_refused_token_is_not_tried_again() -> None:
    """It would not get better by itself."""
    assert await introduced(TokenRefused("no")) == (None, [Standing("connecting"), Standing("idle")], [])


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_waits_stay_within_their_bounds(failures: int, chance: float) -> None:
    """A week without network must end in a wait of seconds."""
    assert timedelta(seconds=0.8) <= BACKOFF.pause(failures, chance=chance) <= timedelta(seconds=12)


def api(handler: httpx2.MockTransport) -> BotApi:
    client = httpx2.AsyncClient(transport=handler)
    return BotApi(client, "http://127.0.0.1/base/", CANARY, timedelta(seconds=1))


def refuse_connection(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError(f"no way to {request.url}", request=request)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx2.Response(401, json={"ok": False}), TokenRefused),
        (httpx2.Response(404, json={"ok": False, "description": "Not Found"}), TokenRefused),
        (httpx2.Response(404, text="a web server that is not Telegram"), TryLater),
        (httpx2.Response(500, text=CANARY), TryLater),
        (httpx2.Response(200, json={"ok": True, "result": {"id": "x"}}), TryLater),
        (httpx2.Response(200, text="[]"), TryLater),
        (httpx2.Response(302, headers={"location": "http://elsewhere/"}), TryLater),
        (None, TryLater),
    ],
)
async def test_no_error_tells_the_token(answer: httpx2.Response | None, error: type[Exception]) -> None:
    """The token is part of every address, and the client's errors name the address."""
    handler = refuse_connection if answer is None else lambda _: answer
    with pytest.raises(error) as caught:
        await api(httpx2.MockTransport(handler)).me()
    told = "".join(traceback.format_exception(caught.value))
    fault: BaseException | None = caught.value
    while fault is not None:
        told += repr(fault) + str(vars(fault))
        fault = fault.__cause__ or fault.__context__
    assert "CANARY" not in told


async def test_a_token_with_odd_signs_stays_one_part_of_the_address() -> None:
    """Whatever was pasted, the call goes to the API's own address."""
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.raw_path.decode())
        return httpx2.Response(401, json={"ok": False})

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    with pytest.raises(TokenRefused):
        await BotApi(client, "http://127.0.0.1", "a/../b?c\n#", timedelta(seconds=1)).me()
    assert seen == ["/bota%2F..%2Fb%3Fc%0A%23/getMe"]


def test_settings_do_not_show_the_token_and_refuse_a_bad_address() -> None:
    """A settings value ends up in a log sooner or later."""
    assert "CANARY" not in repr(Settings.of(Configuration(telegram_token=CANARY)))
    with pytest.raises(ConfigError, match="LUCYD_TELEGRAM_API_URL must begin with"):
        Settings.of(Configuration(environment={"LUCYD_TELEGRAM_API_URL": "api.telegram.org"}))
