"""Picks the concrete classes of the gateway, opens them, and closes them in reverse."""

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta

from services.gateway.actions.decide_dead import Terms
from services.gateway.actions.send_webhooks import WebhookSender
from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.edge.app import gateway_app
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.callback import open_callback
from services.gateway.edge.chat_api import ChatApi
from services.gateway.edge.dead_api import DeadApi
from services.gateway.edge.operator_api import OperatorApi
from services.gateway.edge.run_control_api import RunControlApi
from services.gateway.edge.session_api import SessionApi
from services.gateway.edge.story_api import StoryApi
from services.gateway.settings import Settings
from shared.adapters.foundation import open_foundation
from shared.adapters.http.health import health_routes
from shared.adapters.http.serve import listen, serving
from shared.adapters.postgres.dead_letters import PostgresDeadLetters
from shared.adapters.postgres.history import PostgresHistory
from shared.adapters.postgres.runs import PostgresRuns
from shared.adapters.postgres.stories import PostgresStories
from shared.adapters.postgres.webhooks import PostgresWebhooks
from shared.adapters.redis.announcements import RedisAnnouncements
from shared.adapters.redis.control import RedisControl
from shared.adapters.redis.monitor_board import RedisMonitorBoard
from shared.adapters.redis.run_streams import RedisRunStreams
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.system_clock import SystemClock
from shared.ports.webhooks import CALLBACK
from shared.runtime.service import Service
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, resident_bytes

CONNECTIONS = 8
SENDER_IS_LOST_AFTER = timedelta(seconds=60)


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration) -> AsyncIterator[Service]:
    """The gateway, listening."""
    settings = Settings.of(configuration)
    clock, lag = SystemClock(), LoopLag()
    listener = listen(settings.host, settings.port)  # first of all: a port in use is the most common mistake
    address = "http://{}:{}".format(*listener.getsockname()[:2])

    def vitals() -> Mapping[str, str]:
        return {"rss_bytes": str(resident_bytes()), "health": address}

    async with contextlib.AsyncExitStack() as stack:
        stack.callback(listener.close)
        foundation = await stack.enter_async_context(
            open_foundation(
                "gateway",
                database_url=settings.database_url,
                redis_url=settings.redis_url,
                vitals=vitals,
                lag=lambda: lag.last,
                health=None,
                connections=CONNECTIONS,
            )
        )
        runs, history = PostgresRuns(foundation.database), PostgresHistory(foundation.database)
        streams, announcements = RedisRunStreams(foundation.redis), RedisAnnouncements(foundation.redis)
        wake_ups = RedisWakeUps(foundation.redis, consumer=str(foundation.identity.id), stream_ttl=settings.stream_ttl)
        waiting = WaitingRoom(announcements, streams, runs, clock)
        bodies = Bodies(settings.agent)
        control = RedisControl(foundation.redis)
        chat = ChatApi(runs, wake_ups, control, streams, announcements, waiting, history, clock, bodies, settings.chat)
        sessions = SessionApi(history, runs, bodies, settings.context_limit)
        operator = OperatorApi(
            history=history,
            board=RedisMonitorBoard(foundation.redis),
            bodies=bodies,
            clock=clock,
            started=clock.monotonic(),
            models=settings.models,
            primary=settings.primary,
            version=foundation.identity.version,
        )
        terms = Terms(settings.chat.deadline, settings.chat.capacity, settings.chat.key_lives)
        dead = DeadApi(PostgresDeadLetters(foundation.database), runs, wake_ups, bodies, terms)
        routes = [
            *health_routes("gateway", foundation.checks),
            *chat.routes(),
            *RunControlApi(runs, history, control, wake_ups, waiting, bodies).routes(),
            *sessions.routes(),
            *operator.routes(),
            *dead.routes(),
            *StoryApi(PostgresStories(foundation.database), bodies).routes(),
        ]
        app = gateway_app(routes, bodies, agent=settings.agent, token=settings.token)
        loops: list[Callable[[], Awaitable[None]]] = [
            *foundation.loops, lag.watch, announcements.listen, waiting.listen, waiting.fetch, waiting.heal,
        ]  # fmt: skip
        drains: list[Callable[[], Awaitable[None]]] = [waiting.close]
        if settings.callback is not None:
            sender = WebhookSender(
                PostgresWebhooks(foundation.database),
                {CALLBACK: await stack.enter_async_context(open_callback(settings.callback, clock))},
                clock,
                me=foundation.identity.id,
                stale=max(SENDER_IS_LOST_AFTER, 2 * settings.callback.timeout),
                chance=random.Random(),  # noqa: S311 - it spreads tries, and guards nothing
            )
            loops.append(sender.run)
            drains.append(sender.close)

        async def drain() -> None:
            for close in drains:
                await close()

        await stack.enter_async_context(serving(app, listener))
        yield Service("gateway", loops=loops, drain=drain)
