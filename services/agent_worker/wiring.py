"""Picks the concrete classes of the agent worker, opens them, and closes them in reverse."""

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar

import structlog

from services.agent_worker.actions.ask_model import route_of
from services.agent_worker.actions.desk import Desk, Preparing
from services.agent_worker.actions.heed_control import heed_control
from services.agent_worker.actions.mind_memory import MindMemory
from services.agent_worker.actions.remember_history import Histories
from services.agent_worker.actions.rounds import Rounds
from services.agent_worker.actions.serve_conversation import Fenced
from services.agent_worker.actions.stand_back import StandBack
from services.agent_worker.actions.take_work import WorkInHand, take_work
from services.agent_worker.actions.tell import Outlet
from services.agent_worker.actions.work_alone import work_alone
from services.agent_worker.edge.isolation import Isolation
from services.agent_worker.edge.mcp_tools import McpTools
from services.agent_worker.edge.picture_box import PictureBox
from services.agent_worker.edge.plugins.sending import PeopleAround
from services.agent_worker.edge.plugins.shelf import PluginShelf, open_plugins
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.at_local_time import AtLocalTime
from services.agent_worker.edge.tools.cancel_scheduled import CancelScheduledTool
from services.agent_worker.edge.tools.commitment_update import CommitmentUpdateTool
from services.agent_worker.edge.tools.edit import EditTool
from services.agent_worker.edge.tools.exec import ExecTool
from services.agent_worker.edge.tools.kept_files import KeptFiles
from services.agent_worker.edge.tools.list_scheduled import ListScheduledTool
from services.agent_worker.edge.tools.load_skill import LoadSkillTool
from services.agent_worker.edge.tools.memory_forget import MemoryForgetTool
from services.agent_worker.edge.tools.memory_get import MemoryGetTool
from services.agent_worker.edge.tools.memory_search import MemorySearchTool
from services.agent_worker.edge.tools.memory_write import MemoryWriteTool
from services.agent_worker.edge.tools.message import MessageTerms, MessageTool
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.pdf_read import PdfReadTool
from services.agent_worker.edge.tools.react import ReactTool
from services.agent_worker.edge.tools.read import ReadTool
from services.agent_worker.edge.tools.receivers import Receivers
from services.agent_worker.edge.tools.record_episode import RecordEpisodeTool
from services.agent_worker.edge.tools.remind_user import RemindUserTool
from services.agent_worker.edge.tools.sandbox import Sandbox, find_sandbox, kept_below
from services.agent_worker.edge.tools.schedule_message import ScheduleMessageTool
from services.agent_worker.edge.tools.schedule_self_task import ScheduleSelfTaskTool
from services.agent_worker.edge.tools.send_file import SendFileTool
from services.agent_worker.edge.tools.session_status import SessionStatusTool
from services.agent_worker.edge.tools.sessions_spawn import SessionsSpawnTool
from services.agent_worker.edge.tools.shell_process import ShellLimits
from services.agent_worker.edge.tools.web_fetch import WebFetchTool
from services.agent_worker.edge.tools.web_search import WebSearchTool
from services.agent_worker.edge.tools.write import WriteTool
from services.agent_worker.edge.workspace_files import WorkspaceFiles
from services.agent_worker.ports import Tool, ToolSource
from services.agent_worker.rules.tool_output import output_limit
from services.agent_worker.settings import ALONE, Errand, Settings, WebTerms
from shared.actions.sweep import sweep_for_ever
from shared.actions.watch_peers import PeerWatch
from shared.adapters.foundation import Foundation, open_foundation
from shared.adapters.http.egress import open_egress
from shared.adapters.mcp.servers import ConnectedServers
from shared.adapters.models.open_model import open_models
from shared.adapters.postgres.acts import PostgresActs
from shared.adapters.postgres.blobs import PostgresBlobs
from shared.adapters.postgres.children import PostgresChildren
from shared.adapters.postgres.fleet import PostgresFleet, beating
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.memory import PostgresMemory
from shared.adapters.postgres.prepared import PostgresPreparedMessages
from shared.adapters.postgres.runs import PostgresRuns
from shared.adapters.postgres.schedules import PostgresSchedules
from shared.adapters.postgres.session_figures import PostgresSessionFigures
from shared.adapters.postgres.workspace_id import check_workspace
from shared.adapters.processes import is_gone
from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.colleagues import RedisColleagues
from shared.adapters.redis.control import RedisControl
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.skill_folders import SkillFolders, SkillShelf
from shared.adapters.system_clock import SystemClock
from shared.domain.child_run import MODEL_ROUTE
from shared.domain.destination import origin_of
from shared.domain.run import Route
from shared.errors import ConfigError
from shared.messages.worker_figures import WorkerFigures
from shared.ports.mcp_servers import McpServers
from shared.ports.model import Model
from shared.runtime.configuration.models import EMBEDDINGS
from shared.runtime.processors import Processors
from shared.runtime.service import Service, StartAnew
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, give_memory_back, resident_bytes

log = structlog.get_logger(__name__)

CONNECTIONS = 8
PARENT_EVERY = timedelta(seconds=1)
NEXT_BEAT_WITHIN = timedelta(seconds=4)
LONGER_THAN_ITS_RUN = timedelta(minutes=1)
FENCED = 75  # EX_TEMPFAIL of sysexits: start me again

Port = TypeVar("Port")


def _as_it_is(port: Port) -> Port:
    return port


class Wrap(Protocol):
    """Puts something before a port that has its face, such as a fault."""

    def __call__(self, port: Port, /) -> Port:
        """The port to use in its place."""
        ...


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration, *, wrap: Wrap = _as_it_is) -> AsyncIterator[Service]:
    """The agent worker, ready to run.

    ``wrap`` is for the wiring of a test: it is called once with each of clock, models, runs, bulletin, wake-ups,
    toolbox and processors as they are made. The worker itself gives none.
    """
    settings = Settings.of(configuration)
    opened = threading.Event()
    if settings.alone is not None:
        threading.Thread(target=_end_with, args=(settings.alone.parent, opened), daemon=True).start()
    lag = LoopLag()
    clock = wrap(SystemClock())
    hand: WorkInHand | None = None
    figures: Callable[[], WorkerFigures] | None = None
    plugins: PluginShelf | None = None
    servers = ConnectedServers(settings.mcp_servers)

    def vitals() -> Mapping[str, str]:
        return {
            "rss_bytes": str(resident_bytes()),
            "served": str(hand.served if hand else 0),
            "plugins": plugins.told if plugins else "",
            **({"mcp": servers.told} if settings.mcp_servers else {}),
            **(figures().told() if figures else {}),
        }

    async with contextlib.AsyncExitStack() as stack:
        foundation = await stack.enter_async_context(
            open_foundation(
                "agent_worker",
                database_url=settings.database_url,
                redis_url=settings.redis_url,
                vitals=vitals,
                lag=lambda: lag.lately,
                connections=CONNECTIONS,
            )
        )
        await check_workspace(foundation.database, settings.workspace)
        clients = await stack.enter_async_context(open_models(settings.models))
        models = {role: wrap(model) for role, model in clients.items()}
        worker = foundation.identity.id
        runs = wrap(PostgresRuns(foundation.database))
        fleet = PostgresFleet(foundation.database)
        bulletin = wrap(RedisBulletin(foundation.redis, stream_ttl=settings.stream_ttl, result_ttl=settings.result_ttl))
        wake_ups = wrap(RedisWakeUps(foundation.redis, consumer=str(worker), stream_ttl=settings.stream_ttl))
        outlet = Outlet(bulletin, runs, clock)
        await fleet.register(foundation.identity)
        assert settings.database_url is not None  # noqa: S101 - the foundation has refused otherwise
        pulse = stack.enter_context(beating(settings.database_url, worker, on_fenced=_leave_at_once))
        sandbox = _sandbox(settings)
        plugins = await stack.enter_async_context(
            open_plugins(
                settings.plugins.seeing(sandbox.temporary),
                output_limit=settings.output_truncation,
                sender=PeopleAround(
                    Receivers(settings.contacts),
                    PostgresBlobs(foundation.database),
                    settings.run_deadline,
                    settings.queue_capacity,
                ),
            )
        )
        web = await stack.enter_async_context(_open_web(settings.web))
        skills = SkillShelf(SkillFolders(settings.skill_places), SystemClock())
        await skills.look()
        desk = Desk(
            worker=worker,
            runs=runs,
            models=models,
            routes=_routes(settings, models),
            toolbox=wrap(
                _toolbox(
                    settings, foundation, clock, plugins, servers, sandbox=sandbox, web=(*web, LoadSkillTool(skills))
                )
            ),
            workspace=WorkspaceFiles(
                AllowedPaths(
                    (settings.workspace, *settings.allowed_paths), settings.workspace, hidden=settings.hidden_paths
                ),
                settings.tiers,
            ),
            outlet=outlet,
            acts=PostgresActs(foundation.database),
            children=PostgresChildren(foundation.database),
            blobs=PostgresBlobs(foundation.database),
            clock=clock,
            pulse=pulse,
            manner=settings.manner,
            draining=asyncio.Event(),
            chance=random.Random(),  # noqa: S311 - spreads retries, guards nothing
            alone=settings.alone is not None,
            skills=skills,
            preparing=(
                Preparing(plugins.preprocessors, PostgresPreparedMessages(foundation.database))
                if plugins.preprocessors
                else None
            ),
        )
        control = RedisControl(foundation.redis)
        isolation = Isolation(
            configuration.environment, variable=ALONE, longest=settings.run_deadline + LONGER_THAN_ITS_RUN
        )
        histories = Histories(settings.history_characters)
        hand = WorkInHand(desk, histories, share=settings.share, isolate=isolation.ask)
        memory = MindMemory(
            hand, histories, limit=settings.memory_limit, resident=resident_bytes, give_back=give_memory_back
        )
        watch = PeerWatch(fleet, clock, me=worker, is_gone=is_gone)
        surplus = StandBack(
            foundation.identity,
            processors=wrap(Processors()),
            peers=lambda: watch.others,
            colleagues=RedisColleagues(foundation.redis),
            clock=clock,
        )
        figures = partial(_figures, hand, memory, surplus, desk)
        rounds = Rounds(
            desk=desk,
            hand=hand,
            runs=runs,
            inbox=PostgresInbox(foundation.database),
            fleet=fleet,
            watch=watch,
            bulletin=bulletin,
            wake_ups=wake_ups,
            drain_within=settings.drain,
        )
        work: Sequence[Callable[[], Awaitable[None]]] = (
            lambda: take_work(wake_ups, runs, hand, sleep=clock.sleep, surplus=surplus),
            lambda: sweep_for_ever(rounds.sweep, clock, desk.chance),
            lambda: sweep_for_ever(rounds.tell, clock, desk.chance),
            isolation.run,
            lambda: _mind(memory),
            *((surplus.watch,) if settings.stand_back else ()),
        )
        opened.set()
        yield Service(
            "agent_worker",
            loops=(
                *foundation.loops,
                lag.watch,
                skills.watch,
                outlet.flush_for_ever,
                outlet.remember_published,
                *((servers.live,) if settings.mcp_servers else ()),
                lambda: heed_control(control, hand),
                *(work if settings.alone is None else _alone(settings.alone, rounds)),
                lambda: _watch(hand),
            ),
            drain=rounds.drain,
        )


def _alone(errand: Errand, rounds: Rounds) -> Sequence[Callable[[], Awaitable[None]]]:
    desk = rounds.desk

    async def work() -> None:
        await work_alone(errand.conversation, rounds.hand, is_wanted=lambda: os.getppid() == errand.parent)
        signal.raise_signal(signal.SIGTERM)  # and so it says goodbye, as every worker does
        await asyncio.Event().wait()

    return (work, lambda: sweep_for_ever(rounds.mind_what_is_in_hand, desk.clock, desk.chance))


def _figures(hand: WorkInHand, memory: MindMemory, surplus: StandBack, desk: Desk) -> WorkerFigures:
    """What colleagues and operators read. One that takes no wake-ups, for whatever reason, must not be counted on."""
    if desk.alone:
        taking = "no (alone)"
    elif desk.draining.is_set():
        taking = "no (draining)"
    else:
        taking = surplus.taking if hand.takes else memory.taking
    return WorkerFigures(surplus.machine, taking, hand.count, hand.slots, hand.in_line, hand.waits)


def _routes(settings: Settings, models: Mapping[str, Model]) -> Mapping[str, Route]:
    """By source, and one for each role that a sub-agent may be given."""
    routes = {source: route_of(models[role]) for source, role in settings.roles.items()}
    return routes | {f"{MODEL_ROUTE}{role}": route_of(model) for role, model in models.items()}


@contextlib.asynccontextmanager
async def _open_web(web: WebTerms) -> AsyncIterator[Sequence[Tool]]:
    """Each with a client of its own: what one may ask beside the public web, the other may not."""
    async with open_egress(web.fetch_allowed) as pages, open_egress([origin_of(web.search.url)]) as searches:
        yield WebFetchTool(pages, timeout=web.fetch_timeout), WebSearchTool(searches, web.search)


def _toolbox(
    settings: Settings,
    foundation: Foundation,
    clock: SystemClock,
    plugins: PluginShelf,
    servers: McpServers,
    *,
    sandbox: Sandbox,
    web: Sequence[Tool],
) -> LocalToolbox:
    primary = settings.models["primary"]
    limit = output_limit(settings.output_truncation, primary.max_context_tokens)
    paths = AllowedPaths(
        settings.allowed_paths,
        settings.workspace,
        hidden=settings.hidden_paths,
        kept=settings.kept_paths,
        temporary=sandbox.temporary,
    )
    figures = PostgresSessionFigures(
        foundation.database, clock, context_limit=primary.max_context_tokens, currency=primary.rates.currency
    )
    files = KeptFiles(paths, PostgresBlobs(foundation.database))
    tools: Sequence[Tool] = (
        ReadTool(paths, default_limit=settings.read_limit),
        WriteTool(paths),
        EditTool(paths),
        ExecTool(
            settings.workspace,
            settings.environment,
            output_limit=limit,
            default_timeout=settings.exec_timeout,
            max_timeout=settings.exec_max_timeout,
            sandbox=sandbox,
            limits=ShellLimits(
                settings.exec.cpu_seconds, settings.exec.memory_mb * 1_000_000, settings.exec.file_mb * 1_000_000
            ),
        ),
        PdfReadTool(paths),
        SendFileTool(files),
        SessionStatusTool(figures),
        *web,
        *_memory(settings, foundation),
        SessionsSpawnTool(
            settings.spawning,
            roles=[role for role in settings.models if role != EMBEDDINGS],
            offered=lambda: [spec.name for spec in toolbox.specs()],
            output_limit=limit,
        ),
        *_scheduling(settings, foundation, clock),
        ReactTool(settings.contacts),
        MessageTool(
            settings.contacts,
            MessageTerms(settings.manner.part_limit, settings.run_deadline, settings.queue_capacity),
            files,
        ),
    )
    enabled = [tool for tool in tools if tool.spec.name in settings.tools]
    sources: Sequence[ToolSource] = [plugins.beside(tool.spec.name for tool in tools), McpTools(servers)]
    toolbox = LocalToolbox(
        enabled,
        output_truncation=limit,
        max_parallel=settings.parallel_tools,
        sources=sources,
        pictures=PictureBox(PostgresBlobs(foundation.database), largest=settings.manner.largest_image),
    )
    return toolbox


def _sandbox(settings: Settings) -> Sandbox:
    """Where commands run. Raises ``ConfigError`` when a sandbox is required and there is none."""
    if "exec" not in settings.tools:
        return Sandbox(why="exec is not enabled")
    writable = [*settings.allowed_paths, *settings.exec.write]
    sandbox = find_sandbox(
        settings.exec.sandbox,
        workspace=settings.workspace,
        writable=writable,
        readable=[*settings.exec.read, *kept_below(writable, settings.kept_paths)],
        hidden=settings.hidden_paths,
        environment=settings.environment,
        network=settings.exec.network,
        temporary=settings.temporary,
        processes=settings.exec.processes,
    )
    sandbox.tidy()
    if sandbox.words:
        log.info("commands_run_in_a_sandbox", network=settings.exec.network, is_bounded=sandbox.is_bounded)
    elif settings.exec.sandbox == "required":
        raise ConfigError([f"[tools.exec] sandbox is required, and there is none: {sandbox.why}"])
    else:
        log.warning("commands_run_without_a_sandbox", why=sandbox.why)
    return sandbox


def _scheduling(settings: Settings, foundation: Foundation, clock: SystemClock) -> Sequence[Tool]:
    most, longest = settings.scheduling.max_scheduled, settings.scheduling.max_delay
    later = AtLocalTime(clock, settings.people, settings.zone, most=most)
    return (
        ScheduleMessageTool(settings.contacts, settings.people, most=most, longest=longest),
        RemindUserTool(later),
        ScheduleSelfTaskTool(later),
        ListScheduledTool(PostgresSchedules(foundation.database), settings.people, settings.zone),
        CancelScheduledTool(settings.people),
    )


def _memory(settings: Settings, foundation: Foundation) -> Sequence[Tool]:
    people, memory = settings.people, PostgresMemory(foundation.database)
    return (
        MemorySearchTool(memory, people, manner=settings.recall, default_top_k=settings.search_top_k),
        MemoryGetTool(memory),
        MemoryWriteTool(people),
        MemoryForgetTool(people),
        CommitmentUpdateTool(people),
        RecordEpisodeTool(people),
    )


def _end_with(parent: int, opened: threading.Event) -> None:
    """While it still waits for Postgres or Redis it has nothing in hand: it ends when nobody is there who wants it."""
    while not opened.wait(PARENT_EVERY.total_seconds()):
        if os.getppid() != parent:
            os._exit(0)


async def _mind(memory: MindMemory) -> None:
    await memory.watch(sleep=asyncio.sleep)
    raise StartAnew


async def _watch(hand: WorkInHand) -> None:
    try:
        await hand.watch()
    except Fenced:  # a claim has heard it before the beat did, who knows what to say of that
        await asyncio.sleep(NEXT_BEAT_WITHIN.total_seconds())
        _leave_at_once()


def _leave_at_once() -> None:
    """Peers count this worker as dead, so nothing it does may count any more. Called in the beat's thread, too."""
    log.error("worker_fenced_by_peers")
    os._exit(FENCED)
