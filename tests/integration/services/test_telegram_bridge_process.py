"""The Telegram bridge as a process, against a Bot API of our own on 127.0.0.1."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.integration.services.service_process import Surroundings, started, until

CANARY = "123456789:CANARY-tellNobodyThisToken_aaaaaaaa"
ME = {"ok": True, "result": {"id": 123456789, "is_bot": True, "first_name": "Lucyd", "username": "lucyd_bot"}}


class BotApiServer(ThreadingHTTPServer):
    """Answers by script; the last answer stays."""

    answers: list[tuple[int, dict[str, Any]]]
    paths: list[str]


class Handler(BaseHTTPRequestHandler):
    server: BotApiServer

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        answers = self.server.answers
        status, document = answers.pop(0) if len(answers) > 1 else answers[0]
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def bot_api(*answers: tuple[int, dict[str, Any]]) -> Iterator[BotApiServer]:
    with BotApiServer(("127.0.0.1", 0), Handler) as server:
        server.answers, server.paths = list(answers), []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)


def address(server: BotApiServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


async def test_without_a_token_it_idles_and_says_so(surroundings: Surroundings) -> None:
    """`make run` on a fresh machine must not fail for want of a bot."""
    async with started("telegram_bridge", surroundings) as bridge:
        assert (await bridge.ready())["state"] == "idle"
        assert "no Telegram token is set: the bridge idles; set LUCYD_TELEGRAM_TOKEN" in bridge.said()
        assert await bridge.stop() == 0


async def test_it_shows_its_bot_after_a_bad_start_and_never_its_token(surroundings: Surroundings) -> None:
    """Telegram has bad moments; and a token in a log is a bot that somebody else may take over."""
    flood = {"ok": False, "error_code": 429, "description": "slow down", "parameters": {"retry_after": 1}}
    broken = {"ok": False, "error_code": 502, "description": "Bad Gateway"}
    with bot_api((502, broken), (429, flood), (200, ME)) as server:
        environment = {
            "LUCYD_TELEGRAM_TOKEN": CANARY,
            "LUCYD_TELEGRAM_API_URL": address(server),
            "LUCYD_LOG_LEVEL": "debug",
        }
        async with started("telegram_bridge", surroundings, **environment) as bridge:
            await bridge.ready()

            async def knows_its_bot() -> bool:
                return (await bridge.monitor()).get("bot") == "@lucyd_bot"

            await until(knows_its_bot, 10, bridge.said)
            fields = await bridge.monitor()
            assert fields["state"] == "ready"
            assert await bridge.stop() == 0
            assert server.paths == [f"/bot{CANARY}/getMe"] * 3
            assert "CANARY" not in bridge.said() + str(fields)
            assert "takes no messages" in bridge.said()


async def test_a_refused_token_is_said_plainly(surroundings: Surroundings) -> None:
    """Restarting for ever would help nobody."""
    with bot_api((401, {"ok": False, "error_code": 401, "description": "Unauthorized"})) as server:
        environment = {"LUCYD_TELEGRAM_TOKEN": CANARY, "LUCYD_TELEGRAM_API_URL": address(server)}
        async with started("telegram_bridge", surroundings, **environment) as bridge:
            await bridge.ready()

            async def idles() -> bool:
                return "refuses the token" in bridge.said() and (await bridge.monitor()).get("state", "") == "idle"

            await until(idles, 10, bridge.said)
            assert "CANARY" not in bridge.said()
            assert len(server.paths) == 1
            assert await bridge.stop() == 0


async def test_a_telegram_that_is_not_there_keeps_nobody_from_stopping(surroundings: Surroundings) -> None:
    """The network is down on the train; the token still stays where it is."""
    environment = {
        "LUCYD_TELEGRAM_TOKEN": CANARY,
        "LUCYD_TELEGRAM_API_URL": "http://127.0.0.1:1",
        "LUCYD_LOG_LEVEL": "debug",
    }
    async with started("telegram_bridge", surroundings, **environment) as bridge:
        assert (await bridge.ready())["state"] == "connecting"

        async def has_tried() -> bool:
            return "telegram_not_reached" in bridge.said()

        await until(has_tried, 10, bridge.said)
        assert await bridge.stop() == 0
        assert "CANARY" not in bridge.said()
