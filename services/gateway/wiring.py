"""Picks the concrete classes of the gateway, opens them, and closes them in reverse."""

import asyncio
import contextlib
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from services.gateway.actions.decide_dead import Terms
from services.gateway.actions.embed_texts import Embedding
from services.gateway.actions.end_with_client import end_with_client
from services.gateway.actions.glance import Glance
from services.gateway.actions.limit_requests import Turnstile
from services.gateway.actions.look_up_key import Keyring
from services.gateway.actions.send_webhooks import WebhookSender
from services.gateway.actions.take_leave import Departure, take_leave
from services.gateway.actions.take_stock import StockTaker
from services.gateway.actions.wait_for_reply import WaitingRoom
from services.gateway.actions.watch_keys import Stays
from services.gateway.actions.watch_runs import RunWatch
from services.gateway.edge.app import gateway_app
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.callback import AT_ONCE, KEPT_FOR, Callback, open_callback
from services.gateway.edge.chat_api import ChatApi
from services.gateway.edge.dead_api import DeadApi
from services.gateway.edge.document_api import DocumentApi
from services.gateway.edge.door import TokenDoor
from services.gateway.edge.embeddings_api import EmbeddingsApi
from services.gateway.edge.enclosed_files import EnclosedFiles
from services.gateway.edge.event_stream import Seats
from services.gateway.edge.front_desk import FrontDesk
from services.gateway.edge.health_api import HealthApi
from services.gateway.edge.intake import Intake
from services.gateway.edge.jobs_api import JobsApi
from services.gateway.edge.memory_api import MemoryApi
from services.gateway.edge.meter import Meter
from services.gateway.edge.metrics_api import House, MetricsApi
from services.gateway.edge.notify_api import NotifyApi
from services.gateway.edge.openai_api import OpenAIApi
from services.gateway.edge.operation import Operation
from services.gateway.edge.operator_api import OperatorApi, look_at_house
from services.gateway.edge.outbound_api import OutboundApi
from services.gateway.edge.plugins_api import PluginsApi
from services.gateway.edge.records_api import RecordsApi
from services.gateway.edge.repeats import Repeats
from services.gateway.edge.reply_files_api import ReplyFilesApi
from services.gateway.edge.run_control_api import RunControlApi
from services.gateway.edge.schedules_api import SchedulesApi
from services.gateway.edge.session_api import SessionApi
from services.gateway.edge.skills_api import SkillsApi
from services.gateway.edge.story_api import StoryApi
from services.gateway.edge.upkeep_api import UpkeepApi
from services.gateway.ports import Courier
from services.gateway.settings import LOOPBACK, Settings, no_open_door
from shared.actions.keep_door import Doorkeeper
from shared.adapters.foundation import open_foundation
from shared.adapters.http.guarded_network import GuardedNetwork
from shared.adapters.http.guarded_transport import GuardedTransport
from shared.adapters.http.health import readiness
from shared.adapters.http.listening import given_listener, listen
from shared.adapters.http.metrics_page import MEDIA_TYPE
from shared.adapters.http.patience import Patience
from shared.adapters.http.serve import serving
from shared.adapters.inmemory.windows import InMemoryWindows
from shared.adapters.postgres.answers import PostgresAnswers
from shared.adapters.postgres.api_keys import PostgresApiKeys
from shared.adapters.postgres.dead_letters import PostgresDeadLetters
from shared.adapters.postgres.history import PostgresHistory
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.memory import PostgresMemory
from shared.adapters.postgres.outbox import PostgresOutbox
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.records import PostgresRecords
from shared.adapters.postgres.reply_files import PostgresReplyFiles
from shared.adapters.postgres.runs import PostgresRuns
from shared.adapters.postgres.schedules import PostgresSchedules
from shared.adapters.postgres.stock import PostgresStock
from shared.adapters.postgres.stories import PostgresStories
from shared.adapters.postgres.webhooks import PostgresWebhooks
from shared.adapters.proxies import is_address_proxied
from shared.adapters.redis.announcements import RedisAnnouncements
from shared.adapters.redis.control import RedisControl
from shared.adapters.redis.late_desk import open_late_desk
from shared.adapters.redis.monitor_board import RedisMonitorBoard
from shared.adapters.redis.queue_depths import RedisQueueDepths
from shared.adapters.redis.run_streams import RedisRunStreams
from shared.adapters.redis.shared_line import SharedLine
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.redis.windows import RedisWindows
from shared.adapters.skill_folders import SkillFolders, SkillShelf
from shared.adapters.system_clock import SystemClock
from shared.domain.destination import origin_of
from shared.ports.clock import Clock
from shared.ports.webhooks import CALLBACK
from shared.runtime.service import Service
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, resident_bytes

CONNECTIONS = 8
SENDER_IS_LOST_AFTER = timedelta(seconds=60)
IDLE_GRACE = timedelta(seconds=2)
"""How long an idle connection stays at the goodbye: a request that comes meanwhile is answered."""


def _given_door(configuration: Configuration) -> socket.socket | None:
    listener = given_listener(configuration.environment)
    if listener is not None and configuration.http_token is None:
        host = listener.getsockname()[0]
        if host not in LOOPBACK:
            listener.close()
            raise no_open_door(f"the given socket listens on {host}", configuration.http.token_env)
    return listener


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration) -> AsyncIterator[Service]:
    """The gateway, listening."""
    settings = Settings.of(configuration)
    clock, lag = SystemClock(), LoopLag()
    # First of all: a port in use is the most common mistake.
    listener = _given_door(configuration) or listen(settings.host, settings.port)
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
                lag=lambda: lag.lately,
                health=None,
                connections=CONNECTIONS,
            )
        )
        inbox, history = PostgresInbox(foundation.database), PostgresHistory(foundation.database)
        line = SharedLine(foundation.redis)
        stack.push_async_callback(line.close)
        streams, announcements = RedisRunStreams(foundation.redis, ask=line.ask), RedisAnnouncements(foundation.redis)
        wake_ups = RedisWakeUps(
            foundation.redis, consumer=str(foundation.identity.id), stream_ttl=settings.stream_ttl, ask=line.ask
        )
        waiting = WaitingRoom(announcements, streams, inbox, clock)
        watch = RunWatch(announcements, history, clock)
        departure = Departure(watch.rouse_all)
        seats, meter, accepted = Seats(settings.most_streams), Meter(), Counter[str]()
        stock = StockTaker(
            {"postgres": PostgresStock(foundation.database), "redis": RedisQueueDepths(foundation.redis)}, clock
        )
        bodies = Bodies(settings.agent)
        repeats = Repeats(PostgresAnswers(foundation.database), bodies, settings.chat.key_lives, clock)
        windows, own = RedisWindows(foundation.redis, ask=line.ask), InMemoryWindows(clock)
        entrance = TokenDoor(
            settings.token,
            keyring := Keyring(PostgresApiKeys(foundation.database), clock),
            Turnstile(settings.limits, windows, own, clock),
            bodies,
            stays := Stays(keyring, clock),
        )
        control = RedisControl(foundation.redis)
        doorkeeper = Doorkeeper(inbox, clock, settings.bounds, accepted)
        intake = Intake(doorkeeper, wake_ups, control, settings.chat)
        front = FrontDesk(
            streams,
            watch,
            seats,
            waiting,
            history,
            clock,
            departure,
            partial(
                end_with_client,
                others=lambda run: waiting.awaits(run) or watch.follows(run),
                inbox=inbox,
                control=control,
                wake_ups=wake_ups,
            ),
        )
        assert settings.redis_url is not None  # noqa: S101 - the foundation has refused otherwise
        desk = await stack.enter_async_context(open_late_desk(settings.redis_url))
        records = PostgresRecords(foundation.database)
        operator = OperatorApi(
            history=history,
            records=records,
            board=RedisMonitorBoard(foundation.redis),
            bodies=bodies,
            clock=clock,
            started=clock.monotonic(),
            models=settings.models,
            primary=settings.primary,
            version=foundation.identity.version,
            glance=Glance(partial(look_at_house, history), clock),
            stock=stock,
        )
        skills = SkillShelf(SkillFolders(settings.skill_places), clock)  # looked at when somebody asks
        terms = Terms(settings.chat.deadline, settings.chat.capacity, settings.chat.key_lives)
        embedding = await stack.enter_async_context(_open_embedding(settings, foundation.database, clock))
        operations: list[Operation] = [
            *HealthApi("gateway", partial(readiness, {**foundation.checks, "staying": departure.check})).operations(),
            *MetricsApi(foundation.metrics.text, MEDIA_TYPE, stock).operations(),
            *ChatApi(intake, front, history, bodies, _enclosed(foundation.database)).operations(),
            *ReplyFilesApi(history, PostgresReplyFiles(foundation.database), bodies).operations(),
            *OpenAIApi(front, intake, inbox, history, bodies, settings.agent).operations(),
            *JobsApi(desk, records, clock, bodies, repeats).operations(),
            *PluginsApi(RedisMonitorBoard(foundation.redis), bodies).operations(),
            *RecordsApi(records, bodies).operations(),
            *OutboundApi(
                PostgresOutbox(foundation.database), intake, repeats, bodies, clock, settings.contacts
            ).operations(),
            *UpkeepApi(intake, inbox, waiting, records, bodies, settings.idle_minutes, history, repeats).operations(),
            *NotifyApi(intake, front, bodies, *settings.of_people, _enclosed(foundation.database)).operations(),
            *RunControlApi(inbox, history, control, wake_ups, waiting, bodies).operations(),
            *SessionApi(
                history, inbox, bodies, settings.context_limit, records, repeats, settings.of_people[0]
            ).operations(),
            *EmbeddingsApi(embedding, bodies, settings.chat.body_bytes).operations(),
            *operator.operations(),
            *DeadApi(PostgresDeadLetters(foundation.database), inbox, wake_ups, bodies, terms).operations(),
            *StoryApi(PostgresStories(foundation.database), bodies).operations(),
            *SchedulesApi(PostgresSchedules(foundation.database), bodies).operations(),
            *MemoryApi(PostgresMemory(foundation.database), bodies).operations(),
            *SkillsApi(Glance(skills.look, clock), settings.always_on, bodies).operations(),
            *DocumentApi(lambda: operations, foundation.identity.version).operations(),
        ]
        app = gateway_app(
            operations,
            bodies,
            entrance,
            agent=settings.agent,
            meter=meter,
            access_log=settings.access_log,
        )
        loops: list[Callable[[], Awaitable[None]]] = [
            *foundation.loops, lag.watch, announcements.listen, waiting.listen, waiting.fetch, waiting.heal,
            watch.watch, stays.watch, *([embedding.watch] if embedding else []),
        ]  # fmt: skip
        tried: Mapping[str, int] = {}
        goodbyes: list[Callable[[], Awaitable[None]]] = []
        if settings.callback is not None:
            sender = WebhookSender(
                PostgresWebhooks(foundation.database),
                {CALLBACK: await stack.enter_async_context(_open_courier(settings.callback, clock))},
                clock,
                me=foundation.identity.id,
                stale=max(SENDER_IS_LOST_AFTER, 2 * settings.callback.timeout),
                chance=random.Random(),  # noqa: S311 - it spreads tries, and guards nothing
            )
            tried = sender.tried
            loops.append(sender.run)
            goodbyes.append(sender.close)

        foundation.metrics.add(meter)
        foundation.metrics.add(House(lambda: seats.taken, accepted, tried, stock))

        async def drain() -> None:
            await asyncio.gather(
                take_leave(door, departure, waiting.close, within=settings.drain), *(goodbye() for goodbye in goodbyes)
            )

        door = await stack.enter_async_context(
            serving(
                app, listener, grace_seconds=1, idle_grace=IDLE_GRACE, patience=Patience(reader=settings.slow_client)
            )
        )
        yield Service("gateway", loops=loops, drain=drain)


def _enclosed(database: Database) -> EnclosedFiles:
    return EnclosedFiles(PostgresReplyFiles(database))


@contextlib.asynccontextmanager
async def _open_courier(callback: Callback, clock: Clock) -> AsyncIterator[Courier]:
    """The address is its operator's, and so is a proxy that the environment names for it: both are asked as told."""
    origin = origin_of(callback.url)
    guarded = None
    if not is_address_proxied(callback.url):
        guarded = GuardedTransport(GuardedNetwork([origin]), at_once=AT_ONCE, kept_for=KEPT_FOR)
    async with open_callback(callback, clock, guarded) as courier:
        yield courier


@contextlib.asynccontextmanager
async def _open_embedding(settings: Settings, database: Database, clock: Clock) -> AsyncIterator[Embedding | None]:
    """What embeds for clients, if that is configured; what it owes is booked on leaving, if it can be."""
    if settings.embedder is None:
        yield None
        return
    from shared.adapters.models.openai_embedder import open_openai_embedder  # noqa: PLC0415 - few have one

    async with open_openai_embedder(settings.embedder) as embedder:
        embedding = Embedding(embedder, PostgresRuns(database), clock, timeout=settings.embedding_timeout)
        yield embedding
        await embedding.pay()
