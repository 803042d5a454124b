"""A door for another principal: ``python -m bench.second_door`` accepts messages at a steady pace, as a gateway would.

There is one key over HTTP, and whoever is to be held up by another key's flood must come by another door. This one has
the same action behind it, and is a process of its own, as the flood keeps that of the bench busy. Prints one line of
JSON: the token and the run of each message.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import timedelta

import orjson

from bench.loops import run
from bench.wire import Mark, message_text
from shared.actions.accept_message import accept_message
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.pool import open_database
from shared.adapters.redis.connection import open_redis
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.domain.run import Address, NewRun
from shared.ids import new_id

STREAM_TTL = timedelta(hours=1)
NAME = "second"


async def send(asked: argparse.Namespace) -> list[tuple[str, str]]:
    """Accept the messages, each in a conversation of its own; token and run of each."""
    sent: list[tuple[str, str]] = []
    async with (
        open_database(asked.database, application="lucyd bench", connections=2) as database,
        open_redis(asked.redis) as client,
    ):
        inbox = PostgresInbox(database)
        wake_ups = RedisWakeUps(client, consumer="bench", stream_ttl=STREAM_TTL)
        await inbox.outcomes([])  # the first query of a pool opens its connection
        moment = time.monotonic()
        for number in range(asked.count):
            token = f"{asked.prefix}{number:08x}"
            where = Address(f"http:{NAME}:{token}", "http", f"key:{NAME}", NAME)
            new = NewRun(new_id(), where, message_text(Mark(token, asked.latency_ms, asked.latency_ms)))
            accepted = await accept_message(new, inbox=inbox, wake_ups=wake_ups)
            sent.append((token, str(accepted.run)))
            moment += asked.pause_ms / 1000
            await asyncio.sleep(max(0.0, moment - time.monotonic()))
    return sent


def main(words: Sequence[str]) -> None:
    """Send and tell."""
    parser = argparse.ArgumentParser(prog="second_door")
    parser.add_argument("--database", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--prefix", required=True, help="four characters that begin each token")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--pause-ms", type=int, required=True)
    parser.add_argument("--latency-ms", type=int, required=True)
    sys.stdout.buffer.write(orjson.dumps(run(send(parser.parse_args(words)))) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
